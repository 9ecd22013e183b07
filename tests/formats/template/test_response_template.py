"""A declared `response_template` is compiled into the readers here: forms as checkpoints declare them."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.formats.syntax.shape import ANY_JSON, scanner
from toolcall_middleware.formats.template.response_template import (
    NotCompiled,
    compiled,
)
from toolcall_middleware.model import Tool, ToolCall, ToolSet
from toolcall_middleware.parsing.events import CallArgs

from ...parsing.streams import calls_in, read, text_in

JSON_FIELD = {"open": "<a_call>", "close_pattern": r"</a_call>\s*", "repeats": True, "content": "json"}
FORMS: dict[str, tuple[dict[str, Any], str]] = {
    "json": (
        {**JSON_FIELD, "transform": {"type": "function", "function": "{content}"}},
        '<a_call>{"name": "f", "arguments": {"x": "1 < 2"}}</a_call>',
    ),
    "json with its own keys": (
        {**JSON_FIELD, "transform": {"function": {"name": "{content.fn}", "arguments": "{content.with}"}}},
        '<a_call>{"fn": "f", "with": {"x": "1 < 2"}}</a_call>',
    ),
    "json within json": (
        {**JSON_FIELD, "transform": {"type": "function", "function": "{content.function}"}},
        '<a_call>{"function": {"name": "f", "arguments": {"x": "1 < 2"}}}</a_call>',
    ),
    "json within json, by its keys": (
        {
            **JSON_FIELD,
            "transform": {"function": {"name": "{content.function.name}", "arguments": "{content.function.arguments}"}},
        },
        '<a_call>{"function": {"name": "f", "arguments": {"x": "1 < 2"}}}</a_call>',
    ),
    "json whose keys have no quotes": (
        {**JSON_FIELD, "content_args": {"unquoted_keys": True, "string_delims": [["'", "'"], ['"', '"']]}},
        "<a_call>{name: 'f', arguments: {x: '1 < 2'}}</a_call>",
    ),
    "json up to the end": (
        {"open": "<a_call>", "content": "json"},
        '<a_call>{"name": "f", "arguments": {"x": "1 < 2"}}',
    ),
    "a second text that opens": (
        {**JSON_FIELD, "open": ["<a_call>", "<a_second_call>"]},
        '<a_second_call>{"name": "f", "arguments": {"x": "1 < 2"}}</a_call>',
    ),
    "a list": (
        {
            "open": "<a_calls>",
            "close": "</a_calls>",
            "content": "json",
            "transform_each": True,
            "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{arguments}"}},
        },
        '<a_calls>[{"name": "f", "arguments": {"x": "1 < 2"}}]</a_calls>',
    ),
}


def declared(field: dict[str, Any]) -> dict[str, Any]:
    return {"version": 1, "defaults": {"role": "assistant"}, "start_anchor": "<a>", "fields": {"tool_calls": field}}


def thinks(field: dict[str, Any]) -> dict[str, Any]:
    return {"fields": {"tool_calls": FORMS["json"][0], "thinking": field}}


@pytest.mark.parametrize("form", FORMS)
def test_declared_calls_are_read_by_the_character_and_written(form: str) -> None:
    field, text = FORMS[form]
    syntax = compiled(declared(field)).calls
    parser = scanner((*syntax.openers, *ANY_JSON), None, ParserOptions())
    events = read(parser, list(f"So. {text}"))
    assert [(call.name, json.loads(call.arguments)) for call in calls_in(events)] == [("f", {"x": "1 < 2"})]
    assert text_in(events) == "So. "
    again = syntax.write([ToolCall("f", '{"x": "1 < 2"}')])
    assert again is not None
    parser = scanner((*syntax.openers, *ANY_JSON), None, ParserOptions())
    assert [call.name for call in calls_in(read(parser, [again]))] == ["f"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"content": "kv-lines"}, "content of the kind kv-lines"),
        ({"content": "text"}, "content of the kind text"),
        ({"content": "int"}, "content of the kind int"),
        ({"content": "yaml"}, "content of the kind yaml"),
        ({"content_args": {"tabs": True}}, "dialect with other arguments"),
        ({"content": "xml-inline"}, "content of the kind xml-inline"),
        ({"content_args": {"string_delims": "x"}}, "strings between other marks"),
        ({"content_args": {"string_delims": [["~", "~"]]}}, "strings between other marks"),
        ({"transform": {"function": {"name": "{name}", "arguments": "{content}"}}}, "transform that takes"),
        ({"close": ["</a>", "</b>"], "close_pattern": None}, "several texts in close"),
        ({"open": "ab"}, "no reader knows|not read back"),
        ({"transform": {"function": {"name": "f"}}}, "transform that takes"),
        ({"transform": {"function": {"name": "{content.n}", "arguments": {"x": 1}}}}, "transform that takes"),
        ({"transform": {"function": {"name": "{content.n}", "arguments": "x"}}}, "transform that takes"),
        ({"transform": {"function": {"name": "{content.n}", "arguments": "{args}"}}}, "transform that takes"),
        (
            {"transform": {"function": {"name": "{content.n}", "arguments": "{content.b.a}"}}},
            "transform that takes",
        ),
        ({"transform": ["x"]}, "transform that takes"),
        ({"open": None, "open_pattern": "<(a|b)+>"}, "pattern"),
        ({"open": None, "open_pattern": "(?=x)"}, "pattern"),
        ({"open": None}, "no open"),
        ({"close_pattern": r"\d"}, "pattern"),
    ],
)
def test_what_is_more_than_literals_is_not_compiled_and_said(change: dict[str, Any], why: str) -> None:
    with pytest.raises(NotCompiled, match=why):
        compiled(declared({**FORMS["json"][0], **change}))


@pytest.mark.parametrize("form", FORMS)
def test_a_string_streams_and_a_call_that_is_cut_stays_open(form: str) -> None:
    field, text = FORMS[form]
    tools = ToolSet.of([Tool("f", "", {"type": "object", "properties": {"x": {"type": "string"}}})])
    parser = scanner((*compiled(declared(field)).calls.openers, *ANY_JSON), tools, ParserOptions())
    before, _, _ = text.partition("2")
    events = [event for char in before for event in parser.feed(char)]
    arguments = "".join(event.text for event in events if isinstance(event, CallArgs))
    assert arguments.endswith(('"1 <', '"1 < '))
    (call,) = calls_in([*events, *parser.finish()])
    assert not call.complete


ODD: list[Any] = [None, [], [1], {}, {"x": []}, 1, True, "", "x", "{", "{content}", "(?P<name>", "[", "\\", "<" * 5000]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_whatever_is_declared_is_compiled_or_refused(form: str) -> None:
    field = FORMS[form][0]
    places: list[tuple[str, ...]] = [(key,) for key in (*field, "content_args", "transform_each")]
    places += [("content_args", key) for key in ("value_parser", "string_delims")]
    places += [("transform", "function"), ("transform", "function", "name"), ("transform", "function", "arguments")]
    for place in places:
        for odd in ODD:
            changed = copy.deepcopy(field)
            at = changed
            for key in place[:-1]:
                at = at[key] if isinstance(at.get(key), dict) else at.setdefault(key, {})
                if not isinstance(at, dict):
                    break
            else:
                at[place[-1]] = odd
                try:
                    syntax = compiled(declared(changed)).calls
                except NotCompiled:
                    continue
                assert all(len(opener.marker) <= 256 for opener in syntax.openers)


def test_a_declaration_of_another_version_or_shape_is_not_compiled() -> None:
    others: tuple[dict[str, Any], ...] = ({"version": 2}, {}, {"fields": []}, {"fields": {"tool_calls": 1}})
    for spec in others:
        with pytest.raises(NotCompiled):
            compiled(spec)


def test_the_markers_of_a_thought_are_taken_where_they_are_literals() -> None:
    field = {"open": "<muse>", "close_pattern": r"</muse>\s*", "content": "text"}
    assert compiled(thinks(field)).reasoning == ("<muse>", "</muse>")
    assert compiled(thinks({**field, "close_pattern": "x|y"})).reasoning is None
    assert compiled(declared(FORMS["json"][0])).reasoning is None
