"""The demo's face: plain text, with a few colours in a terminal.

What a model wrote is shown with control characters made visible: it cannot move the cursor or forge a verdict.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from ...errors import on_one_line
from ..command import has_colours
from ..faces.answers import Received
from .checks import Check, quote, usage_of

_MOST_LINES = 22
_MOST_ROWS = 4  # of one thing on the page
_LABEL = 20
_LEFT, _RIGHT = "the model wrote", "the client received"
_BOLD, _GREEN, _RED = "1", "32", "1;31"


def merged(checks: Sequence[Check]) -> list[tuple[bool, str]]:
    """One line a question: what was found streamed and whole stands in one line where both came out right."""
    lines: list[tuple[bool, str]] = []
    for what in dict.fromkeys(check.what for check in checks):
        same = [check for check in checks if check.what == what]
        failed = [check for check in same if not check.ok]
        if failed:
            lines.extend((False, _line(what, [check])) for check in failed)
        else:
            lines.append((True, _line(what, same)))
    return lines


def _line(what: str, checks: Sequence[Check]) -> str:
    modes = " and ".join(check.mode for check in checks if check.mode)
    whys = {check.why for check in checks}
    if len(whys) == 1:
        why = whys.pop()
        return visible(what + (f" ({modes})" if modes else "") + (f": {why}" if why else ""))
    return visible(f"{what}: " + "; ".join(f"{check.mode} {check.why}" for check in checks))


def visible(text: str) -> str:
    """Text with every character that a terminal would obey, other than the newline, written out."""
    return on_one_line(text, keep="\n")


def wrote_lines(wrote: str) -> list[str]:
    """The model's text for display, cut to a readable length."""
    lines = visible(wrote).split("\n")
    left = len(lines) - _MOST_LINES
    return [*lines[:_MOST_LINES], f"… {left} more lines"] if left > 1 else lines


def received_lines(answer: Received) -> list[str]:
    """What the client got, field by field."""
    if answer.status != 200 or answer.error is not None:
        return [f"status   {answer.status}", f"error    {visible(str(answer.error))}"]
    lines = [f"content  {visible(quote(answer.content))}"]
    for index, call in enumerate(answer.calls):
        lines += [f"call {index}   {visible(call.name)}   {visible(call.id)}", f"         {visible(call.arguments)}"]
    lines.append(f"finish   {visible(str(answer.finish_reason))}")
    return [*lines, f"usage    {usage_of(answer) or 'none'}"]


class Screen:
    """Where the demo writes."""

    def __init__(self, *, plain: bool) -> None:
        self._coloured = not plain and has_colours()
        # Without a terminal there is no width: 100 reads well in a log, and COLUMNS overrules it.
        self._width = max(40, min(shutil.get_terminal_size((100, 24)).columns, 140))
        encoding = sys.stdout.encoding or "ascii"
        try:
            "✓✗─│…·→".encode(encoding)
            self._good, self._bad, self._rule, self._bar = "✓", "✗", "─", "│"
        except (UnicodeEncodeError, LookupError):
            self._good, self._bad, self._rule, self._bar = "ok", "FAIL", "-", "|"

    def heading(self, text: str, note: str = "") -> None:
        self._print("", self._in(_BOLD, text), *([] if self._coloured else [self._rule * min(self._width, len(text))]))
        if note:
            self._print(textwrap.fill(note, self._width))

    def line(self, text: str) -> None:
        # Not wrapped: it may hold a command to copy.
        self._print(text)

    def exchange(self, title: str, wrote: str, received: Received) -> None:
        self._print("", title)
        if self._width < 76:
            for label, lines in ((_LEFT, wrote_lines(wrote)), (_RIGHT, received_lines(received))):
                self._print(f"  {label}:")
                self._print(*(f"    {line}" for line in _wrapped(lines, self._width - 4)))
            return
        half = (self._width - 5) // 2
        left, right = _wrapped(wrote_lines(wrote), half), _wrapped(received_lines(received), half)
        height = max(len(left), len(right))
        rows = zip(
            [_LEFT, *left, *[""] * (height - len(left))], [_RIGHT, *right, *[""] * (height - len(right))], strict=True
        )
        self._print(*(f"  {one:<{half}} {self._bar} {other}".rstrip() for one, other in rows))

    def verdict(self, lines: Iterable[tuple[bool, str]]) -> None:
        for ok, text in lines:
            mark = f"  {self._good if ok else self._bad} "
            filled = textwrap.fill(text, self._width, initial_indent=mark, subsequent_indent=" " * len(mark))
            self._print(self._in(_GREEN if ok else _RED, mark) + filled[len(mark) :])

    def end(self, text: str, *, ok: bool) -> None:
        self._print("", self._in(_GREEN if ok else _RED, f"{self._good if ok else self._bad} {text}"))

    def page(self, rows: Iterable[tuple[str, str]]) -> None:
        """What happened, a label and some lines each."""
        self._print("")
        for label, text in rows:
            wide = self._width - _LABEL
            whole = visible(text).strip("\n").split("\n")
            lines = [part for line in whole for part in textwrap.wrap(line, wide) or [""]]
            if len(lines) > _MOST_ROWS:
                lines = [*lines[: _MOST_ROWS - 1], f"… {len(lines) - _MOST_ROWS + 1} more lines"]
            first = self._in(_BOLD, f"{label:<{_LABEL}}")
            self._print(*(f"{' ' * _LABEL if number else first}{line}" for number, line in enumerate(lines)))

    def _in(self, colour: str, text: str) -> str:
        return f"\033[{colour}m{text}\033[0m" if self._coloured else text

    def _print(self, *lines: str) -> None:
        encoding = sys.stdout.encoding or "ascii"
        for line in lines:
            # An output that cannot say a character gets a question mark, not a traceback.
            sys.stdout.write(line.encode(encoding, "replace").decode(encoding) + "\n")
        sys.stdout.flush()


def _wrapped(lines: Sequence[str], width: int) -> list[str]:
    return [part for line in lines for part in ([line[at : at + width] for at in range(0, len(line), width)] or [""])]
