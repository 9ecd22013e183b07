r"""Calls whose arguments are one JSON object: JSON alone or in a list, or a name and then JSON. Each form is declared
once as it is written. Arguments are written verbatim.

    HERMES = Json(call=f"<tool_call>\n{CALL}\n</tool_call>")
    JAMBA = Json(open="<tool_calls>[", between=", ", close="]</tool_calls>")
    KIMI_K2 = Named(
        open="<|tool_calls_section_begin|>",
        call="<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>",
        close="<|tool_calls_section_end|>",
    )

White space in a layout of `Json` is written as it is and optional when read. `Named` cannot write a name that holds
white space, quotes or brackets.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

from ...model import ToolCall
from ...parsing.calls.json_calls import JsonCallSyntax, read_json
from ...parsing.calls.named_calls import NamedLayout, NamedTags, read_named
from ...parsing.cursor import Cursor, Steps
from ...parsing.patterns import TAG, TOOL_NAME
from ...parsing.text.grammar import Opener
from ..prompt.escaping import arguments_json
from .shape import ANY_JSON, BARE_JSON, CannotWrite, Shape, filled, in_words, json_calls, opener, shared

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
    open: str = ""  # its bracket opens a list
    close: str = ""
    between: str | None = "\n"
    first: int = 0
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
        """The marker that opens a call, or the list of all calls; empty where there is none."""
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

    def written(self, call: ToolCall, number: int, /) -> tuple[str, bool]:
        """One call. Without a marker it is known by its arguments, which have to be an object."""
        if not self.marker and not arguments_json(call.arguments).startswith("{"):
            raise CannotWrite
        return filled(self.call, call, number, quoted=True), False

    @property
    def trigger(self) -> str:
        """The first tag, or the marker."""
        found = TAG.match(self.marker)
        return found.group() if found else self.marker

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
        return (Opener(pattern=_GAP.join(map(re.escape, tags)), body=self),)

    @property
    def fallback(self) -> tuple[Opener, ...]:
        """Calls without the marker. A list of calls under its key needs none: every turn can be written."""
        return BARE_JSON if self.marker else ANY_JSON

    def shared(self, follow: str = _BEGINS_JSON) -> Opener:
        """The opener where other families have the marker too: what follows it in this one matches `follow`."""
        return shared(self.marker, self, follow)

    @property
    def answer(self) -> str:
        """What an answer that calls consists of, in words."""
        if not self._around[1]:
            return f"{self.marker} and the JSON {'list' if self._is_list else 'object'}"
        return f"the {'list of calls' if self._is_list else 'call'} {in_words(*self._around)}"


TOOL_CALL = Json(call=f"<tool_call>\n{CALL}\n</tool_call>")
"""Hermes's calls, which many families took over."""
TOOL_CALL_JSON = TOOL_CALL.shared()
"""The JSON in the tag distinguishes them from calls that have something else there."""


# -- a name, then JSON -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Named(NamedTags, Shape):
    """How a family writes calls. See `filled` for the holes."""

    between: str | None = ""
    first: int = 0
    through: bool = False
    """Numbers count through the conversation."""
    spellings: tuple[str, ...] = ()
    """Other spellings of `open` that are read."""
    special: bool = False
    """The opening markers are special tokens: no thought holds them."""
    objects: bool = False
    """Only arguments that are an object can be written."""
    name: re.Pattern[str] = TOOL_NAME
    """A name that can be written."""

    @functools.cached_property
    def layout(self) -> NamedLayout:
        """What the reader needs."""
        return NamedLayout(self)

    # -- what is derived -----------------------------------------------------------------------------------------------

    def __call__(self, c: Cursor, /) -> Steps[None]:
        """The reader, after the opening marker."""
        return read_named(c, self.layout)

    def written(self, call: ToolCall, number: int, /) -> tuple[str, bool]:
        """One call."""
        if not self.name.fullmatch(call.name):
            raise CannotWrite
        if self.objects and not arguments_json(call.arguments).startswith("{"):
            raise CannotWrite
        if self.through and call.number is not None:
            number = call.number
        return filled(self.call, call, number, quoted=False), False

    @property
    def marker(self) -> str:
        """What opens all calls, or each."""
        return self.open.strip() or self.layout.opening

    @property
    def closers(self) -> tuple[str, ...]:
        """Markers that are no content after a call."""
        each = self.layout.item_close if self.special or not self.close else ()
        return (*each, *filter(None, (self.close.strip(), *self.ends)))

    @property
    def openers(self) -> tuple[Opener, ...]:
        """What opens all calls; what opens each, for the other may be missing; of tokens, what opens a call that is one
        JSON object, name and arguments.
        """
        item = opener(self.layout.opening.strip(), self, consume=self.alone, special=self.special)
        outer = (self.open.strip(), *self.spellings) if self.open else ()
        openers = (*(opener(marker, self, special=self.special) for marker in outer), item)
        if not self.special or self.alone:
            return openers
        before = f"(?:(?:{'|'.join(map(re.escape, outer))}){_GAP})?" if outer else ""
        pattern = rf"{before}{re.escape(item.marker)}{_GAP}(?=\{{{_GAP}[\"'])"
        return (*openers, Opener(pattern=pattern, body=json_calls(close=self.layout.closing)))

    @property
    def answer(self) -> str:
        """What an answer that calls consists of, in words."""
        return f"the calls between {self.marker} and {self.closers[-1]}"
