"""What formats share when they read: the scanner with every family's markup, and JSON calls without any marker."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..model import Tool, ToolSet
from ..parsing.calls.json_calls import JsonCallSyntax, read_json
from ..parsing.calls.literal_calls import PythonicSyntax, read_python
from ..parsing.calls.named_calls import NamedSyntax, read_named
from ..parsing.cursor import Cursor, Make, Steps, read_last_line
from ..parsing.patterns import PYTHON_NAME, Trie
from ..parsing.text.grammar import Grammar, Opener, Where, beginnings
from ..parsing.text.scanner import Scanner
from ..tool_names import meant_by
from . import markup
from .base import ParserOptions, StreamParser

_BARE = JsonCallSyntax(bare=True, wrappers=frozenset({"tool_calls", "function_call"}))
_ALONE = replace(_BARE, no_other_keys=True)
_MESSAGE = replace(_BARE, message=True)
_WRAPPED = JsonCallSyntax(bare=True, wrappers=frozenset({"tool_calls"}), wrapper_only=True, message=True)

_WS = r"[ \t\r\n]{0,32}"
_KEYS = sorted({*_BARE.names, *_BARE.arguments, *_BARE.ids, "type", "function_call"})
_KEY = "|".join(_KEYS)
_KEY_BEGUN = "|".join(Trie.of(f'{key}"' for key in _KEYS).beginnings().values())
_OBJECT = rf"\{{{_WS}\"(?:{_KEY})\"[ \t]{{0,32}}:"
_OBJECT_BEGUN = rf"\{{{_WS}(?:\"(?:(?:{_KEY})\"[ \t]{{0,32}}|{_KEY_BEGUN})?)?"


def _last_lines(make: Make, pattern: str, partial: str) -> Opener:
    """Calls that follow other text, with nothing else on their lines and nothing after them."""
    return Opener(
        pattern=pattern,
        partial=partial,
        where=Where.LINE,
        consume=False,
        body=lambda c: read_last_line(c, make, (*markup.gathered().ends, *markup.gathered().closers)),
    )


def _alone(c: Cursor) -> Steps[None]:
    return read_json(c, _ALONE)


LAST_LINE = _last_lines(_alone, _OBJECT, _OBJECT_BEGUN)
"""A call in JSON."""
LAST_LIST = _last_lines(_alone, rf"\[{_WS}{_OBJECT}", rf"\[{_WS}(?:{_OBJECT_BEGUN})?")
"""A list of them."""
LAST_LINE_LIST = _last_lines(_alone, rf"\[[ \t]{{0,32}}{_OBJECT}", rf"\[[ \t]{{0,32}}(?:{_OBJECT_BEGUN})?")
"""A list of them, the first on the bracket's own line: what a program prints over many lines is data."""
LAST_PYTHON = _last_lines(
    lambda c: read_python(c, PythonicSyntax(bare=True)),
    rf"\[{_WS}{PYTHON_NAME}[ \t]{{0,32}}\(",
    rf"\[{_WS}(?:\d{{1,8}}|{PYTHON_NAME}[ \t]{{0,32}})?",
)
"""Python's list of calls."""

# A call that is the whole answer, without any marker: what small models write under every prompt.
BARE_OBJECT = Opener(
    marker="{", where=Where.START, consume=False, body=lambda c: read_json(c, _BARE), as_last=(LAST_LINE,)
)
_BARE_LIST = Opener(
    marker="[", where=Where.START, consume=False, body=lambda c: read_json(c, _BARE), as_last=(LAST_LIST,)
)
# `[TOOL_CALL] {"tool": "f", "args": {…}} [/TOOL_CALL]`: models that lost their own syntax (quantized MiniMax M2).
_LABELLED = JsonCallSyntax(close=("[/TOOL_CALL]",))
_LABELLED_JSON = Opener(marker="[TOOL_CALL]", body=lambda c: read_json(c, _LABELLED))
# `[Calling tool: f({…})]`: how some agents show calls in the conversation, which models repeat.
_SHOWN = NamedSyntax(item_close=(")]",), identify=lambda written, _: (written.removesuffix("("), None))
_SHOWN_CALL = Opener(marker="[Calling tool:", body=lambda c: read_named(c, _SHOWN))
BARE_JSON: tuple[Opener, ...] = (BARE_OBJECT, _BARE_LIST, _LABELLED_JSON, _SHOWN_CALL)


def _list_opener(*beginning: tuple[str, ...], fences: Iterable[str] = ()) -> Opener:
    """Calls in a list under its key. beginning: the ways in which the object may begin, up to the key's colon."""
    return Opener(
        pattern="|".join(_WS.join(map(re.escape, parts)) for parts in beginning).replace('"', "[\"']"),
        partial="|".join(beginnings(*parts) for parts in beginning).replace('"', "[\"']"),
        consume=False,
        body=lambda c: read_json(c, _MESSAGE if c.at_start else _WRAPPED),
        fences=frozenset(fences),
        not_behind=('":', "=", "(", "["),  # a message within a JSON document, or code
    )


# `{"tool_calls":`, alone, between text, or first in a block marked as JSON.
_WRAPPED_JSON = _list_opener(("{", '"tool_calls"', ":"), fences=("json", "tool_call", "tool_calls"))

# The same as an assistant's message that says nothing. In a block, that is an example of one.
_BY_ASSISTANT = ('"role"', ":", '"assistant"', ",")
_NOTHING_SAID = (('"content"', ":", "null", ","), ('"content"', ":", '""', ","))
_BEFORE_LIST = (_BY_ASSISTANT, *_NOTHING_SAID, *((*_BY_ASSISTANT, *content) for content in _NOTHING_SAID))
_MESSAGE_JSON = _list_opener(*(("{", *before, '"tool_calls"', ":") for before in _BEFORE_LIST))
LISTED_JSON: tuple[Opener, ...] = (_WRAPPED_JSON, _MESSAGE_JSON)

# What every format reads besides its own syntax: the block for calls that its syntax cannot write, and a
# call in JSON that is the whole answer.
ANY_JSON: tuple[Opener, ...] = (*LISTED_JSON, *BARE_JSON)


def scanner(openers: tuple[Opener, ...], tools: ToolSet | None, options: ParserOptions) -> StreamParser:
    """A parser that recognises `openers` and every family's markup. Without `tools` any name can be called."""
    if options.in_thought or options.parse_reasoning:
        openers = _with_last_lines(openers)
    known = markup.gathered()
    by_name: Mapping[str, Tool] = {} if tools is None else tools.by_name
    meant = functools.partial(_meant, by_name) if tools is not None and options.repair_names else None

    def offered(name: str) -> bool:
        return (name if meant is None else meant(name)) in by_name

    def schema(name: str) -> Mapping[str, Any] | None:
        tool = by_name.get(name if meant is None else meant(name))
        return None if tool is None else tool.parameters

    return Scanner(
        Grammar(openers, known.reasoning, known.stops, known.noise, known.ends, known.closers),
        bool if tools is None else offered,
        schema,
        options,
        meant=meant,
        names=by_name,
    )


@functools.lru_cache(maxsize=128)
def _with_last_lines(openers: tuple[Opener, ...]) -> tuple[Opener, ...]:
    """`openers`, followed by their `as_last` openers, which count only in thoughts."""
    last = dict.fromkeys(opener for first in openers for opener in first.as_last)
    return (*openers, *(replace(opener, in_thought=True) for opener in last if opener not in openers))


def _meant(names: Mapping[str, Tool], written: str) -> str:
    return written if written in names else meant_by(written, names) or written
