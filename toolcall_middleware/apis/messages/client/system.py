"""The system text: its blocks as one text, without what changes from request to request and says nothing.

A backend keeps what it computed of a prompt as long as the next one begins with the same bytes. A line that differs in
each request and stands first makes it compute the whole prompt again.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass

from ....wire.json_reader import Reader

_log = logging.getLogger("toolcall_middleware")


@dataclass(frozen=True, slots=True)
class _KnownLine:
    """A line that is known to stand first. keep: it says something, so it goes to the end of the system text."""

    name: str
    pattern: re.Pattern[str]
    keep: bool


_KNOWN_LINES: tuple[_KnownLine, ...] = (
    # Its suffix changes between sessions, and between the kinds of request of one session.
    _KnownLine("claude-code-billing", re.compile(r"\s*x-anthropic-billing-header:[^\n]*(?:\n+|$)"), keep=False),
    _KnownLine(
        "leading-date",
        re.compile(
            r"\s*(?:Today's date|Todays date|Current date(?: and time)?|Current time"
            r"|The current (?:date|time)(?: and time)?"
            r"|Today)(?: is\b|:)[^\n]{1,100}(?:\n+|$)"
        ),
        keep=True,
    ),
)


def system_text(request: Reader) -> str:
    """The request's `system` (a string, or text blocks) as one text. It is empty if the request has no `system`."""
    if request.begins("system", b'"'):
        texts = [request.required("system")]
    else:
        texts = []
        for block in request.items("system"):
            if block.required("type") != "text":
                raise block.error("type", "Input should be 'text'")
            texts.append(block.required("text"))
    return "\n\n".join(text for text in _without_known_lines(texts) if text)


def _without_known_lines(texts: list[str]) -> list[str]:
    """The texts with the known lines at their front left out, or moved behind them."""
    moved: list[str] = []
    for line in _KNOWN_LINES:
        first = next((number for number, text in enumerate(texts) if text.strip()), None)
        found = line.pattern.match(texts[first]) if first is not None else None
        if first is None or found is None:
            continue
        _log.info("messages: %s (%s the system text)", line.name, "moved behind" if line.keep else "left out of")
        texts = [*texts[:first], texts[first][found.end() :], *texts[first + 1 :]]
        if line.keep:
            moved.append(found[0].strip())
    return [*texts, *moved]
