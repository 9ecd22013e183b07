"""Calls whose arguments stand on lines: `city: Paris`."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from toolcall_middleware.formats import reading
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.formats.syntax.openers import opener
from toolcall_middleware.json_schema.types import STRING
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.calls.line_calls import LineCalls, LineSyntax

from .streams import calls_in, read, text_in

SYNTAX = LineSyntax(name_end=">", close="</call>")
OPENERS = (opener("<call=", lambda sink: LineCalls(sink, SYNTAX)),)
SEMI = (
    opener(
        "<call=", lambda sink: LineCalls(sink, LineSyntax(name_end=">", key_end=" = ", line_end=";", close="</call>"))
    ),
)
PROPERTIES = {"city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"}}
TOOLS = ToolSet.of([Tool("f", "", {"type": "object", "properties": PROPERTIES})])


def events(pieces: Any, *, tools: ToolSet | None = TOOLS, openers: Any = OPENERS, cut: bool = False) -> Any:
    return read(reading.scanner(openers, tools, ParserOptions()), pieces, cut=cut)


@pytest.mark.parametrize(
    ("body", "arguments"),
    [
        ("\ncity: Paris\ndays: 2\n", {"city": "Paris", "days": 2}),
        ("city: Paris", {"city": "Paris"}),
        ("", {}),
        ("\n\n", {}),
        ("\n  city :  a  b \t\r\n\r\ndays:2\r\n", {"city": "a  b", "days": 2}),
        ("\ncity: 12:30 </cal\n", {"city": "12:30 </cal"}),
        ("\ncity: 7\ndays: no\n", {"city": "7", "days": "no"}),
        ('\ncity: say "hi" \\ é🌧\ntags: ["a", 1]\n', {"city": 'say "hi" \\ é🌧', "tags": ["a", 1]}),
        ("\ncity:\ndays: 1\n", {"city": "", "days": 1}),
        ("\nno key here\ncity: x\ncity: y\n: z\n", {"city": "x"}),
        (f"\n{'k' * 900}: x\ndays: 3\n", {"days": 3}),
    ],
)
def test_lines_are_arguments_whole_and_by_the_character(body: str, arguments: dict[str, Any]) -> None:
    text = f"So. <call=f>{body}</call> Bye."
    for pieces in ([text], list(text)):
        found = events(pieces)
        assert [(call.name, json.loads(call.arguments), call.complete) for call in calls_in(found)] == [
            ("f", arguments, True)
        ]
        assert text_in(found) == "So.  Bye."


def test_without_a_schema_a_value_is_json_where_it_reads_as_json() -> None:
    (call,) = calls_in(events(["<call=f>\na: 1\nb: x\n</call>"], tools=None))
    assert json.loads(call.arguments) == {"a": 1, "b": "x"}


def test_other_separators_are_read() -> None:
    (call,) = calls_in(events(list("<call=f>city = a:b\nc; days = 4;</call>"), openers=SEMI))
    assert json.loads(call.arguments) == {"city": "a:b\nc", "days": 4}


@pytest.mark.parametrize("cut", [True, False])
def test_a_call_that_ends_in_a_value_stays_open(*, cut: bool) -> None:
    (call,) = calls_in(events(["<call=f>\ncity: Par"], cut=cut))
    assert (call.complete, call.arguments) == (False, '{"city": "Par')
    (call,) = calls_in(events(["<call=f>\ncity: Paris\n"]))
    assert (call.complete, call.arguments) == (True, '{"city": "Paris"}')


def test_what_has_no_name_is_text() -> None:
    for text in ("<call=", "<call=f", "<call=a b>\nx: 1\n</call>", "<call=" + "f" * 900 + ">\nx: 1\n</call>"):
        found = events(list(text))
        assert not calls_in(found)
        assert text_in(found) == text


def test_a_string_streams() -> None:
    parser = reading.scanner(OPENERS, TOOLS, ParserOptions())
    assert parser.feed("<call=f>\ncity: ")
    assert [getattr(event, "text", "") for event in parser.feed("Par")] == ["Par"]


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["city: x\n", " ", "x", "\n", ":", "<", "city: </cal\n"])
def test_hostile_lines_take_linear_time(piece: str) -> None:
    def taken(size: int) -> float:
        begin = time.process_time()
        events(["<call=f>\ncity: ", *[piece] * size])
        return time.process_time() - begin

    taken(1000)
    assert taken(32_000) < 40 * max(taken(4_000), 0.002)


@pytest.mark.parametrize(
    ("types", "body", "value"),
    [
        (STRING, "\nx = 1: <b>\n  y\n", "x = 1: <b>\n  y"),
        (STRING, "", ""),
        (frozenset({"number"}), " 12 ", 12),
        (frozenset({"boolean"}), "True", True),
    ],
)
def test_all_that_stands_there_can_be_one_argument(types: frozenset[str], body: str, value: object) -> None:
    syntax = LineSyntax(name_end=">", close="</call>", key="code", types=types)
    openers = (opener("<call=", lambda sink: LineCalls(sink, syntax)),)
    text = f"<call=g>{body}</call>"
    for pieces in ([text], list(text)):
        (call,) = calls_in(events(pieces, tools=None, openers=openers))
        assert (call.name, json.loads(call.arguments), call.complete) == ("g", {"code": value}, True)
