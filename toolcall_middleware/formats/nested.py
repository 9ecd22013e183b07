"""MiniMax M3: calls whose arguments are elements within elements, every tag behind one mark.

    ]<]minimax[>[<tool_call>
    ]<]minimax[>[<invoke name="lookup">]<]minimax[>[<city>Paris]<]minimax[>[</city>]<]minimax[>[</invoke>
    ]<]minimax[>[</tool_call>

Objects are elements, lists are elements named `item`, null has no way to be written: such a turn is written in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ..model import ToolCall
from . import reading, tag_openers
from .family import Family, definition
from .prompt.tool_results import tagged
from .syntax.round_trip import comes_back

_MARK = "]<]minimax[>["
_OPENING, _CLOSING = f"{_MARK}<tool_call>\n", f"\n{_MARK}</tool_call>"
_NAME = re.compile(r"[^\s<>{}\[\]\"'`]{1,256}")
_KEY = re.compile(r"[^<>\s=/]{1,256}")
_MAX_DEPTH = 24
_Value = dict[str, msgspec.Raw]
_object = msgspec.json.Decoder(_Value).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode
_openers = (*tag_openers.MINIMAX_M3, *reading.ANY_JSON)


def _element(name: str, raw: bytes, depth: int) -> str:
    """Raises ValueError where the syntax has no way to write the value."""
    if not _KEY.fullmatch(name) or depth > _MAX_DEPTH:
        raise ValueError(name)
    match raw[:1]:
        case b"{":
            inner = _elements(_object(raw), depth)
        case b"[":
            inner = "".join(_element("item", bytes(item), depth + 1) for item in _list(raw))
        case b'"':
            inner = _string(raw)
        case b"n":
            raise ValueError(name)
        case _:
            inner = raw.decode()
    return f"{_MARK}<{name}>{inner}{_MARK}</{name}>"


def _elements(values: _Value, depth: int) -> str:
    return "".join(_element(key, bytes(raw), depth + 1) for key, raw in values.items())


def _call(call: ToolCall) -> str | None:
    if not _NAME.fullmatch(call.name):
        return None
    try:
        arguments = _elements(_object(call.arguments.strip() or "{}"), 0)
    except (ValueError, RecursionError):
        return None
    written = f'{_MARK}<invoke name="{call.name}">{arguments}{_MARK}</invoke>'
    plain = arguments.count(_MARK) == 2 * arguments.count(f"{_MARK}</") and "item" not in arguments
    return written if plain or comes_back(f"{_OPENING}{written}{_CLOSING}", call, _openers) else None


def _write(calls: Sequence[ToolCall]) -> str | None:
    written = [_call(call) for call in calls]
    found = [text for text in written if text is not None]
    return _OPENING + "\n".join(found) + _CLOSING if len(found) == len(calls) else None


# https://huggingface.co/MiniMaxAI/MiniMax-M3 (llama.cpp: models/templates/MiniMax-M3.jinja)
MINIMAX_M3 = Family(
    name="minimax_m3",
    about='`<invoke name="f">` and an element for each argument, all behind `]<]minimax[>[`: MiniMax M3',
    openers=_openers,
    prompt=f"""\
# Tools
You may call one or more tools to assist with the user query.
Here are the tools available in JSONSchema format:

<tools>
{{tools}}
</tools>

To call tools, wrap all invocations in a single {_MARK}<tool_call>{_MARK}</tool_call> block. Parameter values \
containing nested objects or arrays are recursively expanded into XML elements. Example:

{_MARK}<tool_call>
{_MARK}<invoke name="tool-name-1">{_MARK}<param-1>value-1{_MARK}</param-1>{_MARK}<param-2>{_MARK}<item>\
{_MARK}<key-a>val-a{_MARK}</key-a>{_MARK}<key-b>val-b{_MARK}</key-b>{_MARK}</item>{_MARK}</param-2>{_MARK}</invoke>
{_MARK}<invoke name="tool-name-2">{_MARK}<param-1>value-1{_MARK}</param-1>{_MARK}</invoke>
{_MARK}</tool_call>""",
    tool=lambda tool: f"<tool>{definition(tool)}</tool>",
    write=_write,
    results=tagged("<response>", "</response>"),
    answer="the tool call block",
    noun="tool",
    special_tokens=True,
)
