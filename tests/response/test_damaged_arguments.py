"""Arguments that are damaged in every way that was seen of models: while calls are checked, none of them is a call."""

from __future__ import annotations

from typing import Any

import pytest

from tests.exchange.test_modes import NativeBackend, answered, post
from tests.helpers.fakes import TextBackend
from tests.helpers.policies import policy as made_policy
from tests.helpers.stream_rules import Choice, check_error
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.answer.operations import Arguments
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolCall, ToolSet
from toolcall_middleware.response.choice import ChoiceAnswer

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
SOUND = '{"a": "x", "n": 1, "l": [1, 2], "o": {"k": true}}'
SLIGHT = {
    "a comma at the end of the object": '{"a": "x", "n": 1,}',
    "a comma at the end of a list": '{"a": "x", "l": [1, 2,]}',
    "the last brace is missing": '{"n": 1, "a": "x"',
    "two brackets are missing": '{"a": "x", "o": {"k": true',
    "a line end in a string": '{"a": "x\ny"}',
    "a tab in a string": '{"a": "x\ty"}',
}
"""What may be repaired and told as that."""
GRAVE = {
    "quotes are single": "{'a': 'x', 'n': 1}",
    "quotes are curly": "{“a”: “x”, “n”: 1}",
    "keys have no quotes": '{a: "x", n: 1}',
    "a value has no quotes": '{"a": x, "n": 1}',
    "a string has no end": '{"a": "x, "n": 1}',
    "a string has no end, nor have the brackets": '{"a": "x',
    "a key has no end": '{"a',
    "a key has no value": '{"a", "n": 1}',
    "a key has a colon and no value": '{"a": , "n": 1}',
    "the last key has a colon and no value": '{"n": 1, "a": }',
    "a colon is missing": '{"a" "x", "n": 1}',
    "a colon is an equals sign": '{"a" = "x", "n" = 1}',
    "a comma is missing": '{"a": "x" "n": 1}',
    "a comma is a semicolon": '{"a": "x"; "n": 1}',
    "two commas": '{"a": "x",, "n": 1}',
    "a comma first": '{, "a": "x"}',
    "a comma is missing in a list": '{"l": [1 2]}',
    "Python's words": '{"a": None, "o": {"k": True}}',
    "JavaScript's words": '{"a": undefined, "n": NaN}',
    "infinity": '{"n": Infinity}',
    "a number with a plus": '{"n": +1}',
    "a number with zeros before": '{"n": 007}',
    "a number in hexadecimal": '{"n": 0x1F}',
    "a number with its point last": '{"n": 1.}',
    "a number with underscores": '{"n": 1_000}',
    "a comment to the line's end": '{"a": "x", // one\n "n": 1}',
    "a comment": '{"a": "x" /* one */, "n": 1}',
    "an escape that JSON has not": '{"a": "\\q"}',
    "half an escape of four digits": '{"a": "\\u12"}',
    "a quote in a string without a backslash": '{"a": "say "hi" now", "n": 1}',
    "Python's notation of a string": '{"a": """x""", "n": 1}',
    "an ellipsis": '{"a": "x", ...}',
    "brackets of the wrong kind": '{"l": [1, 2}, "n": 1]',
    "a tuple": '{"l": (1, 2)}',
    "a number": "5",
    "a list": '["x"]',
    "a word": "true",
    "text": "x and y",
    "a Python call": "dict(a='x')",
    "a string that holds damaged ones": '"{\\"a\\": \\"x\\",, \\"n\\": 1}"',
    "a number is cut": '{"n": 1, "m": -',
    "a word is cut": '{"n": 1, "o": tru',
}
BEHIND = {
    "text behind": '{"a": "x"} and so on',
    "a second object behind": '{"a": "x"}{"a": "y"}',
    "a brace too many": '{"a": "x"}}',
}
"""Behind arguments in a text there are the call's own brackets: these are told of a backend's own calls."""
KINDS = SLIGHT | GRAVE
ASKED: list[dict[str, Any]] = [
    {"settings": {"validate_arguments": "error"}},
    {"settings": {}, "request_options": {"validate_tool_arguments": True}},
]
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def backend(mode: str, arguments: str) -> Any:
    if mode == "prompt":
        return TextBackend([f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'])
    function = {"name": "f", "arguments": arguments}
    whole = [{"tool_calls": [{"index": 0, "id": "call_" + "a" * 24, "type": "function", "function": function}]}]
    if mode == "native, in pieces":
        cuts = [arguments[at : at + 3] for at in range(0, len(arguments), 3)]
        first = {"index": 0, "id": "call_" + "a" * 24, "type": "function", "function": {"name": "f", "arguments": ""}}
        more = [{"tool_calls": [{"index": 0, "function": {"arguments": cut}}]} for cut in cuts]
        return NativeBackend({"tool_calls": [first]}, *more)
    return NativeBackend(*whole)


async def ask(mode: str, arguments: str, asked: dict[str, Any], *, stream: bool) -> Any:
    asked = dict(asked)
    app = ToolCallMiddleware(
        backend(mode, arguments), mode="native" if mode.startswith("native") else "prompt", **asked.pop("settings")
    )
    return await post(app, stream=stream, tools=[TOOL], **asked)


def check_refused(response: Any) -> None:
    assert response.status_code == 422, response.text
    assert check_error(response.content)["code"] == "malformed_tool_arguments"


@STREAMS
@pytest.mark.parametrize("asked", ASKED, ids=["operator", "client"])
@pytest.mark.parametrize("mode", ["prompt", "own", "native"])
@pytest.mark.parametrize("kind", [*KINDS, *BEHIND])
async def test_it_is_no_call_where_calls_are_checked(kind: str, mode: str, asked: dict[str, Any], stream: bool) -> None:
    if mode == "prompt" and kind in BEHIND:
        pytest.skip("it stands behind the arguments")
    check_refused(await ask(mode, (KINDS | BEHIND)[kind], asked, stream=stream))


@pytest.mark.parametrize("kind", [*KINDS, *BEHIND])
async def test_nor_where_it_comes_in_pieces(kind: str) -> None:
    check_refused(await ask("native, in pieces", (KINDS | BEHIND)[kind], ASKED[0], stream=True))


@STREAMS
@pytest.mark.parametrize("mode", ["prompt", "own", "native"])
async def test_what_is_sound_is_a_call(mode: str, stream: bool) -> None:
    choice = answered(await ask(mode, SOUND, ASKED[0], stream=stream))
    assert isinstance(choice, Choice)
    assert choice.named_calls == [("f", SOUND)]


@STREAMS
@pytest.mark.parametrize("mode", ["prompt", "own", "native"])
@pytest.mark.parametrize("kind", SLIGHT)
async def test_what_is_slight_is_repaired_and_said_where_they_are_not(kind: str, mode: str, stream: bool) -> None:
    asked = {"settings": {"validate_arguments": "error", "malformed_arguments": "repair"}}
    response = await ask(mode, SLIGHT[kind], asked, stream=stream)
    assert [call.name for call in answered(response).calls] == ["f"]
    assert stream or "; repaired=1" in response.headers["x-toolcall"]


MARK = '{"mark": 0}'
WRITTEN = {name: registry.get(name).render_calls([ToolCall("f", MARK, "call_1")]) for name in registry.names()}


@pytest.mark.parametrize("name", [name for name, text in WRITTEN.items() if MARK in text])
def test_none_is_a_call_in_any_format_with_json_arguments(name: str) -> None:
    fmt, tools = registry.get(name), ToolSet.of([Tool("f", "", {"type": "object"})])
    policy = made_policy(stream_arguments=False, malformed_arguments="error")
    for kind, damaged in KINDS.items():
        for pieces in ([WRITTEN[name].replace(MARK, damaged)], list(WRITTEN[name].replace(MARK, damaged))):
            answer = ChoiceAnswer(fmt.parser(tools, ParserOptions(keep_raw=True)), policy)
            ops = [op for piece in pieces for op in answer.feed(piece)] + answer.finish("stop")[0]
            assert not any(isinstance(op, Arguments) for op in ops), kind


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", ["prompt", "native"])
async def test_complete_arguments_that_are_no_object_are_refused_and_quoted(mode: str, stream: bool) -> None:
    text = TextBackend(['<tool_call>\n{"name": "f", "arguments": [1]}\n</tool_call>'])
    call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "f", "arguments": "[1]"}}
    backend = text if mode == "prompt" else NativeBackend({"tool_calls": [call]}, finish="tool_calls")
    response = await post(ToolCallMiddleware(backend, mode=mode, malformed_arguments="error"), stream=stream)
    assert response.status_code == 422  # nothing of a stream has been sent either
    error = check_error(response.content)
    assert error["code"] == "malformed_tool_arguments"
    assert "[1]" in error["message"]
