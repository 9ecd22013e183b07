"""`malformed_arguments=forward`: arguments leave as the model wrote them, for clients that repair them themselves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.exchange.test_modes import NativeBackend, answered, post
from tests.helpers.fakes import Answer, TextBackend
from tests.helpers.stream_rules import check_error
from toolcall_middleware import ToolCallMiddleware

from .test_own_calls import refusal

STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
MODES = pytest.mark.parametrize("mode", ["prompt", "own", "native"])
MALFORMED = [
    '{"x": 1,}',
    "{'x': 1}",
    "{x: 1}",
    '{"x": 1} // one',
    '{"x": True}',
    '{"x": 01}',
    '{"x" 1}',
    '{"x": "a\nb"}',
    '{"x": /* one */ 1}',
    '{"x": 1, "y": "\\q"}',
]


def backend(mode: str, arguments: str) -> Any:
    if mode == "prompt":
        return TextBackend([f'<tool_call>\n{{"name": "f", "arguments": {arguments}}}\n</tool_call>'])
    call = {"index": 0, "id": "call_" + "a" * 24, "type": "function", "function": {"name": "f", "arguments": arguments}}
    return NativeBackend({"tool_calls": [call]})


async def forwarded(mode: str, arguments: str, *, stream: bool, **settings: Any) -> Any:
    app = ToolCallMiddleware(
        backend(mode, arguments), mode="native" if mode == "native" else "prompt",
        malformed_arguments="forward", **settings,
    )  # fmt: skip
    return await post(app, stream=stream)


@STREAMS
@MODES
@pytest.mark.parametrize("arguments", MALFORMED)
async def test_it_leaves_verbatim_and_is_told_as_malformed(arguments: str, mode: str, stream: bool) -> None:
    if "//" in arguments and mode == "prompt":
        pytest.skip("the comment stands behind the arguments")
    response = await forwarded(mode, arguments, stream=stream)
    choice = answered(response, verbatim=True)
    assert choice.named_calls == [("f", arguments)]
    assert choice.finish_reason == "tool_calls"
    assert stream or "; malformed=1" in response.headers["x-toolcall"]


@STREAMS
@MODES
@pytest.mark.parametrize("arguments", ['{"x": 1}', '{ "x" : 1e0 }', "{}"])
async def test_what_is_right_leaves_as_ever(arguments: str, mode: str, stream: bool) -> None:
    response = await forwarded(mode, arguments, stream=stream)
    assert answered(response, tools={"f"}).named_calls == [("f", arguments)]
    assert "malformed" not in response.headers["x-toolcall"]


@STREAMS
@MODES
@pytest.mark.parametrize("arguments", ["5", '["x"]', "true"])
async def test_what_is_no_object_leaves_too(arguments: str, mode: str, stream: bool) -> None:
    choice = answered(await forwarded(mode, arguments, stream=stream), verbatim=True)
    assert choice.named_calls == [("f", arguments)]


@STREAMS
async def test_a_string_that_holds_them_is_read(stream: bool) -> None:
    response = await forwarded("prompt", json.dumps('{"x": 1,}'), stream=stream)
    assert answered(response, verbatim=True).named_calls == [("f", '{"x": 1,}')]


@STREAMS
@pytest.mark.parametrize("text", ["{0}</tool_call>", "{0}"])
async def test_what_ends_in_a_value_leaves_cut(text: str, stream: bool) -> None:
    written = '<tool_call>\n{"name": "f", "arguments": ' + text.format('{"x": ')
    app = ToolCallMiddleware(TextBackend([written]), malformed_arguments="forward")
    choice = answered(await post(app, stream=stream))
    assert (choice.finish_reason, [call.arguments.rstrip() for call in choice.calls]) == ("length", ['{"x":'])


@STREAMS
async def test_what_the_token_limit_cut_is_no_call(stream: bool) -> None:
    written = '<tool_call>\n{"name": "f", "arguments": {"x": '
    app = ToolCallMiddleware(TextBackend([Answer(written, finish_reason="length")]), malformed_arguments="forward")
    choice = answered(await post(app, stream=stream))
    assert (choice.finish_reason, choice.calls, choice.content) == ("length", [], written)


@STREAMS
@MODES
async def test_a_check_looks_at_what_it_means(mode: str, stream: bool) -> None:
    checked: dict[str, Any] = {"validate_arguments": "error", "stream": stream}
    choice = answered(await forwarded(mode, '{"x": 1,}', **checked), verbatim=True)
    assert choice.named_calls == [("f", '{"x": 1,}')]
    assert check_error((await forwarded(mode, '{"x": "no",}', **checked)).content)["code"] == "invalid_tool_arguments"
    response = await forwarded(mode, "5", **checked)
    assert check_error(response.content)["code"] == "malformed_tool_arguments"


@STREAMS
@MODES
async def test_no_limit_is_passed(mode: str, stream: bool) -> None:
    long = '{"x": 1 ' + "/* a */ " * 20 + "}"
    response = await forwarded(mode, long, stream=stream, max_arguments_bytes=100)
    assert refusal(response) == "limit_exceeded"
    response = await forwarded(mode, '{"x": 1,}', stream=stream, arguments_as_object=True)
    assert check_error(response.content)["code"] == "malformed_tool_arguments"


@STREAMS
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("mistral_v11", '[TOOL_CALLS]f[ARGS]{"x": 1,}'),
        ("harmony", '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": 1,}<|call|>'),
        ("json", '```json\n{"tool_calls": [{"arguments": {"x": 1,}, "name": "f"}]}\n```'),
        ("qwen3_coder", '<tool_call>\n<function=f>\n{"x": 1,}\n</function>\n</tool_call>'),
        ("functionary_v31", '<function=f>{"x": 1,}</function>'),
    ],
)
async def test_each_syntax_with_json_arguments_knows_them(name: str, text: str, stream: bool) -> None:
    app = ToolCallMiddleware(TextBackend([text]), format=name, malformed_arguments="forward")
    choice = answered(await post(app, stream=stream), verbatim=True)
    assert choice.named_calls == [("f", '{"x": 1,}')]


@STREAMS
async def test_several_calls_do_not_mix(stream: bool) -> None:
    entries = ['{"x": 1,}', '{"x": 2}', "{'x': 3}"]
    text = "\n".join(f'<tool_call>\n{{"name": "f", "arguments": {one}}}\n</tool_call>' for one in entries)
    app = ToolCallMiddleware(TextBackend([text]), malformed_arguments="forward")
    choice = answered(await post(app, stream=stream), verbatim=True)
    assert [arguments for _, arguments in choice.named_calls] == entries


@STREAMS
@pytest.mark.parametrize("words", ["5", "city is Paris", "dict(x=1)"])
async def test_words_in_their_place_are_text(words: str, stream: bool) -> None:
    begin = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
    text = f"{begin}{words}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    app = ToolCallMiddleware(TextBackend([text]), malformed_arguments="forward")
    choice = answered(await post(app, stream=stream), verbatim=True)
    assert (choice.content, choice.named_calls, choice.finish_reason) == (text, [], "stop")


@STREAMS
async def test_what_became_no_call_is_no_calls_arguments(stream: bool) -> None:
    text = '<tool_calls>[{"name": no", "arguments": {"x": "other",}}]</tool_calls><function name="f"></function>'
    app = ToolCallMiddleware(TextBackend([text]), mode="prompt", malformed_arguments="forward")
    choice = answered(await post(app, stream=stream), verbatim=True)
    assert [call.name for call in choice.calls] == ["f"]
    assert "other" not in choice.calls[0].arguments
