r"""Calls written as JSON, alone or in a list, each declared once as it is written.

    HERMES = Json(call=f"<tool_call>\n{CALL}\n</tool_call>")
    JAMBA = Json(open="<tool_calls>[", between=", ", close="]</tool_calls>")

Arguments are written verbatim. White space in a layout is written as it is and optional when read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from ...model import ToolCall
from ...parsing.calls.json_calls import JsonCallSyntax, read_json
from ...parsing.cursor import Cursor, Steps
from ...parsing.text.grammar import Opener, beginnings
from ..prompt.escaping import arguments_json
from .openers import opener, shared
from .shape import TAG, Shape, WriteCalls, filled

CALL = '{"name": "{name}", "arguments": {arguments}}'
"""A call as most families write it."""
PARAMETERS = '{"name": "{name}", "parameters": {arguments}}'

_KEY = re.compile(r'"([^"{}]+)"\s*:\s*"?\{(name|arguments|encoded)\}')
_GAP = r"[ \t\r\n]{0,32}"
_BEGINS_JSON = r"[{\[`\"']"


@dataclass(frozen=True, kw_only=True)
class Json(Shape):
    """How a family writes calls. Holes of `call`: see `filled`."""

    call: str = CALL
    open: str = ""
    """Before all calls of a turn; its bracket opens a list."""
    close: str = ""
    """After them."""
    between: str | None = "\n"
    """Between two calls. None: a turn has one call at most."""
    first: int = 0
    """The first call's number."""
    ends: tuple[str, ...] = ()
    """Closing markers that are read and not written."""

    # -- parts ---------------------------------------------------------------------------------------------------------

    @functools.cached_property
    def _around(self) -> tuple[str, str]:
        """What is written around the JSON."""
        at = self.call.index("{")
        before, after = self.call[:at].strip(), self.call[self.call.rindex("}") + 1 :].strip()
        opening, closing = self.open.strip(), self.close.strip()
        if opening.endswith("["):
            opening, closing = opening[:-1].rstrip(), closing.removeprefix("]").lstrip()
        return before or opening, after if before else after + closing

    @property
    def marker(self) -> str:
        """What opens the calls: of a call, or of the list of all. Empty: nothing does."""
        return self._around[0]

    @property
    def _is_list(self) -> bool:
        return self.open.rstrip().endswith("[")

    @property
    def _word(self) -> bool:
        """The marker is a mere word, so the bracket is part of it."""
        return self._is_list and self.marker.isalpha()

    @functools.cached_property
    def syntax(self) -> JsonCallSyntax:
        """What the reader needs."""
        keys = {hole: key for key, hole in _KEY.findall(self.call)}
        known = JsonCallSyntax()
        return JsonCallSyntax(
            close=self.closers,
            keyed="name" not in keys,
            bare=not self.marker,
            in_list=self._word,
            names=known.names | {keys["name"]} if "name" in keys else known.names,
            arguments=known.arguments | {keys["arguments"]} if "arguments" in keys else known.arguments,
        )

    # -- what is derived -----------------------------------------------------------------------------------------------

    def __call__(self, c: Cursor, /) -> Steps[None]:
        """The reader, after the opening marker."""
        return read_json(c, self.syntax)

    def writer(self, *_: Opener) -> WriteCalls:
        """Writes calls. Without a marker they are known by their arguments, which have to be an object."""
        return self._write

    def _write(self, calls: Sequence[ToolCall]) -> str | None:
        if self.between is None and len(calls) > 1:
            return None
        if not self.marker and not all(arguments_json(call.arguments).startswith("{") for call in calls):
            return None
        each = (filled(self.call, call, number, quoted=True) for number, call in enumerate(calls, start=self.first))
        return self.open + (self.between or "").join(each) + self.close

    @property
    def trigger(self) -> str:
        """The first tag, or the marker."""
        found = TAG.match(self.marker)
        return found.group() if found else self.marker

    @property
    def constrained_from(self) -> str:
        """The same."""
        return self.trigger

    @property
    def closers(self) -> tuple[str, ...]:
        """Markers that are no content after a call."""
        return tuple(dict.fromkeys(filter(None, (self._around[1], *self.ends))))

    @property
    def openers(self) -> tuple[Opener, ...]:
        """The marker, whose tags may have white space between them."""
        tags = TAG.findall(self.marker)
        if not self.marker:
            return ()
        if len(tags) < 2:
            return (opener(self.marker + "[" * self._word, self),)
        return (
            Opener(
                pattern=_GAP.join(map(re.escape, tags)),
                partial=beginnings(*tags[:-1], tags[-1][:-1]),
                body=self,
            ),
        )

    def shared(self, follow: str = _BEGINS_JSON) -> Opener:
        """The marker where other families have it too: `follow` tells this one from those."""
        return shared(self.marker, self, follow)

    @property
    def answer(self) -> str:
        """What an answer that calls consists of, in words."""
        if not self._around[1]:
            return f"{self.marker} and the JSON {'list' if self._is_list else 'object'}"
        return f"the {'list of calls' if self._is_list else 'call'} {self.around}"

    @property
    def around(self) -> str:
        """The markers, in words."""
        first, last = self._around
        return f"within {first}{last} tags" if last == f"</{first[1:]}" else f"between {first} and {last}"


TOOL_CALL = Json(call=f"<tool_call>\n{CALL}\n</tool_call>")
"""Hermes's calls, which many lineages took over."""
TOOL_CALL_JSON = TOOL_CALL.shared()
"""The JSON in the tag tells them from those that write something else there."""
