"""Arguments that are malformed, in every way that was seen of models and for every setting: told, repaired, refused,
forwarded or text. A call whose text ends inside a value is never made to look complete, whoever says that it ended.

ways: a call in the text, a backend's own that was not asked for, and one in `mode=native`.
"""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.exchange.test_modes import GOOD, TOOL, NativeBackend, answered, post
from tests.helpers.fakes import Answer, TextBackend
from tests.helpers.stream_rules import check_error
from toolcall_middleware import ToolCallMiddleware

from .test_own_calls import refusal

FREE = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
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
    "a comment behind": '{"a": "x"} // one',
}
"""Behind arguments in a text there are the call's own brackets: these are told of a backend's own calls."""
KINDS = SLIGHT | GRAVE | BEHIND
CASES = [(kind, way) for kind in KINDS for way in ("prompt", "own", "native") if way != "prompt" or kind not in BEHIND]
CUT = {
    "a string has no end", "a string has no end, nor have the brackets", "a key has no end", "a comma is a semicolon",
    "a number is cut", "a word is cut", "text", "a Python call",
}  # fmt: skip
"""Those that end inside a value, as far as can be told."""
OPEN = CUT - {"text", "a Python call"} | {
    "the last brace is missing", "two brackets are missing", "brackets of the wrong kind",
}  # fmt: skip
"""Those that in a text take the call's own brackets, too."""
INSIDE = [
    '{"x": "rm -rf /home/me/t',
    '{"x": "half an escape \\',
    '{"x": 12',
    '{"x": tru',
    '{"x": [1, 2',
    '{"x": {"y": "z',
    '{"x": ',
    '{"x"',
    '{"x',
    '{"x": 1, ',
    "{",
]
BRACKETS = ['{"x": "a"', '{"x": [1]', '{"x": {"y": true', '{"x": null']
ID = "call_" + "a" * 24
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
WAYS = pytest.mark.parametrize("way", ["prompt", "own", "native"])
MODES = pytest.mark.parametrize("way", ["prompt", "native", "auto"])


def hermes(arguments: str, end: str = "}\n</tool_call>") -> str:
    return f'<tool_call>\n{{"name": "f", "arguments": {arguments}{end}'


def native(*pieces: str) -> NativeBackend:
    """A backend whose own call has arguments that come in these pieces."""
    deltas: list[dict[str, Any]] = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    deltas[0] |= {"id": ID, "type": "function", "function": {"name": "f", "arguments": pieces[0]}}
    return NativeBackend(*({"tool_calls": [delta]} for delta in deltas))


def in_pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


async def ask(
    way: str,
    arguments: str,
    *,
    stream: bool,
    end: str = "}\n</tool_call>",
    body: dict[str, Any] | None = None,
    **set_: Any,
) -> httpx.Response:
    """The answer to a request whose model calls `f` so. end: what follows in a text. set_: settings."""
    backend = TextBackend([hermes(arguments, end)]) if way == "prompt" else native(arguments)
    mode = {"own": "prompt"}.get(way, way)
    return await post(ToolCallMiddleware(backend, mode=mode, **set_), stream=stream, **(body or {}))


def check_refused(response: httpx.Response) -> str:
    """Nothing of a stream has been sent either. Returns the message."""
    assert response.status_code == 422, response.text
    error = check_error(response.content)
    assert error["code"] == "malformed_tool_arguments"
    message: str = error["message"]
    return message


# -- each kind, by setting -------------------------------------------------------------------------------------------


@STREAMS
@pytest.mark.parametrize("asked", ["operator", "client"])
@pytest.mark.parametrize(("kind", "way"), CASES)
async def test_it_is_no_call_where_calls_are_checked(kind: str, way: str, asked: str, stream: bool) -> None:
    body: dict[str, Any] = {"tools": [FREE]}
    settings = {"validate_arguments": "error"} if asked == "operator" else {}
    if asked == "client":
        body["request_options"] = {"validate_tool_arguments": True}
    check_refused(await ask(way, KINDS[kind], stream=stream, body=body, **settings))


@pytest.mark.parametrize("kind", KINDS)
async def test_nor_where_it_comes_in_pieces(kind: str) -> None:
    backend = native("", *in_pieces(KINDS[kind], 3))
    app = ToolCallMiddleware(backend, mode="native", validate_arguments="error")
    check_refused(await post(app, stream=True, tools=[FREE]))


@STREAMS
@pytest.mark.parametrize(("kind", "way"), [case for case in CASES if case[1] != "prompt" or case[0] not in OPEN])
async def test_it_is_forwarded_verbatim_and_told(kind: str, way: str, stream: bool) -> None:
    written, body = KINDS[kind], {"tools": [FREE]}
    response = await ask(way, written, stream=stream, body=body, malformed_arguments="forward")
    choice = answered(response, verbatim=True)
    # A JSON string that holds them is read.
    assert choice.named_calls == [("f", json.loads(written) if written[0] == '"' else written)]
    cut = kind in CUT and way != "prompt"
    assert choice.finish_reason == ("length" if cut else "tool_calls")
    assert stream or f"; {'cut' if cut else 'malformed'}=1" in response.headers["x-toolcall"]


@STREAMS
@WAYS
async def test_what_is_sound_is_a_call_where_calls_are_checked(way: str, stream: bool) -> None:
    response = await ask(way, SOUND, stream=stream, body={"tools": [FREE]}, validate_arguments="error")
    assert answered(response).named_calls == [("f", SOUND)]


@STREAMS
@WAYS
@pytest.mark.parametrize("kind", SLIGHT)
async def test_what_is_slight_is_repaired_and_said_where_that_is_set(kind: str, way: str, stream: bool) -> None:
    settings = {"validate_arguments": "error", "malformed_arguments": "repair"}
    response = await ask(way, SLIGHT[kind], stream=stream, body={"tools": [FREE]}, **settings)
    assert [call.name for call in answered(response).calls] == ["f"]
    assert stream or "; repaired=1" in response.headers["x-toolcall"]


# -- refused ---------------------------------------------------------------------------------------------------------


@STREAMS
@MODES
@pytest.mark.parametrize("arguments", ["5", '["x"]', '"Paris"', "true"])
async def test_arguments_that_are_no_object_are_refused_and_quoted(arguments: str, way: str, stream: bool) -> None:
    message = check_refused(await ask(way, arguments, stream=stream, malformed_arguments="error"))
    assert "are not a JSON object" in message
    assert arguments in message or json.dumps(arguments)[1:-1] in message


@STREAMS
async def test_words_are_refused_in_a_text_too(stream: bool) -> None:
    check_refused(await ask("prompt", "oops", stream=stream, malformed_arguments="error"))


@STREAMS
@MODES
async def test_arguments_that_are_too_large_are_the_models_fault(way: str, stream: bool) -> None:
    response = await ask(way, '{"x": "' + "a" * 500 + '"}', stream=stream, max_arguments_bytes=100)
    assert '"type":"model_error"' in response.text
    assert '"code":"limit_exceeded"' in response.text
    if not stream:
        assert (response.status_code, response.headers["x-should-retry"]) == (422, "false")


# -- forwarded -------------------------------------------------------------------------------------------------------


async def forwarded(way: str, arguments: str, *, stream: bool, **settings: Any) -> httpx.Response:
    return await ask(way, arguments, stream=stream, malformed_arguments="forward", **settings)


@STREAMS
@WAYS
@pytest.mark.parametrize("arguments", ['{"x": 1}', '{ "x" : 1e0 }', "{}"])
async def test_what_is_right_leaves_as_ever(arguments: str, way: str, stream: bool) -> None:
    response = await forwarded(way, arguments, stream=stream)
    assert answered(response, tools={"f"}).named_calls == [("f", arguments)]
    assert "malformed" not in response.headers["x-toolcall"]


@STREAMS
@pytest.mark.parametrize("text", ["{0}</tool_call>", "{0}"])
async def test_what_ends_in_a_value_leaves_cut(text: str, stream: bool) -> None:
    choice = answered(await forwarded("prompt", '{"x": ', end=text.format(""), stream=stream))
    assert (choice.finish_reason, [call.arguments.rstrip() for call in choice.calls]) == ("length", ['{"x":'])


@STREAMS
async def test_what_the_token_limit_cut_is_no_call(stream: bool) -> None:
    written = hermes('{"x": ', end="")
    app = ToolCallMiddleware(TextBackend([Answer(written, finish_reason="length")]), malformed_arguments="forward")
    choice = answered(await post(app, stream=stream))
    assert (choice.finish_reason, choice.calls, choice.content) == ("length", [], written)


@STREAMS
@WAYS
async def test_a_check_looks_at_what_it_means(way: str, stream: bool) -> None:
    checked: dict[str, Any] = {"validate_arguments": "error", "stream": stream}
    choice = answered(await forwarded(way, '{"x": 1,}', **checked), verbatim=True)
    assert choice.named_calls == [("f", '{"x": 1,}')]
    assert check_error((await forwarded(way, '{"x": "no",}', **checked)).content)["code"] == "invalid_tool_arguments"
    response = await forwarded(way, "5", **checked)
    assert check_error(response.content)["code"] == "malformed_tool_arguments"


@STREAMS
@WAYS
async def test_no_limit_is_passed(way: str, stream: bool) -> None:
    long = '{"x": 1 ' + "/* a */ " * 20 + "}"
    response = await forwarded(way, long, stream=stream, max_arguments_bytes=100)
    assert refusal(response) == "limit_exceeded"
    response = await forwarded(way, '{"x": 1,}', stream=stream, arguments_as_object=True)
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
    app = ToolCallMiddleware(TextBackend(["\n".join(map(hermes, entries))]), malformed_arguments="forward")
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
    app = ToolCallMiddleware(TextBackend([text]), malformed_arguments="forward")
    choice = answered(await post(app, stream=stream), verbatim=True)
    assert [call.name for call in choice.calls] == ["f"]
    assert "other" not in choice.calls[0].arguments


# -- text, by default ------------------------------------------------------------------------------------------------


@STREAMS
@pytest.mark.parametrize("path", ["chat/completions", "messages", "responses"])
async def test_no_face_shows_a_call_or_an_error(path: str, stream: bool) -> None:
    text = hermes("oops not json")
    app = ToolCallMiddleware(TextBackend([text]), faces="chat,messages,responses")
    said: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 99}
    tool: dict[str, Any] = TOOL
    if path == "messages":
        tool = {"name": "f", "input_schema": {"type": "object"}}
    elif path == "responses":
        said, tool = {"input": "hi"}, {"type": "function", "name": "f", "parameters": {"type": "object"}}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://app") as client:
        response = await client.post(f"/v1/{path}", json={"model": "m", **said, "tools": [tool], "stream": stream})
    assert response.status_code == 200
    assert "oops" in response.text
    for sign in ('"error":{', '"tool_use"', '"function_call"', '"tool_calls":['):
        assert sign not in response.text.replace(": ", ":")


@STREAMS
async def test_a_required_call_is_asked_for_again(stream: bool) -> None:
    backend = TextBackend([hermes("oops"), GOOD])
    choice = answered(await post(ToolCallMiddleware(backend), tool_choice="required", stream=stream), tools={"f"})
    assert choice.named_calls == [("f", '{"x": 3}')]
    assert len(backend.seen) == 2


@STREAMS
@pytest.mark.parametrize("mode", ["prompt", "native"])
@pytest.mark.parametrize("arguments", ["oops not json", ": 1}", "}", ","])
async def test_a_call_that_is_native_is_text_too(mode: str, arguments: str, stream: bool) -> None:
    backend = native(*(["", arguments] if stream else [arguments]))
    backend.finish = "tool_calls"
    app = ToolCallMiddleware(backend, mode=mode)
    choice = answered(await post(app, stream=stream))
    assert (choice.calls, choice.finish_reason) == ([], "stop")
    assert json.loads(choice.content) == {"name": "f", "arguments": arguments}


@STREAMS
@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}```", "\n```JSON\r\n\n{}\n```\n"])
async def test_a_code_fence_around_native_arguments_is_left_out(fence: str, size: int, stream: bool) -> None:
    arguments = fence.replace("{}", '{"x": 1}')
    backend = native(*(in_pieces(arguments, size) if stream else [arguments]))
    choice = answered(await post(ToolCallMiddleware(backend, mode="native"), stream=stream), tools={"f"})
    assert choice.named_calls == [("f", '{"x": 1}')]


@STREAMS
@pytest.mark.parametrize("arguments", ["oops", "5", "[1", '"plain'])
async def test_so_is_one_that_is_cut(arguments: str, stream: bool) -> None:
    backend = TextBackend([Answer(hermes(arguments, end=""), finish_reason="length")])
    choice = answered(await post(ToolCallMiddleware(backend), stream=stream))
    assert not any(call.arguments for call in choice.calls)


async def test_its_outcome_is_malformed() -> None:
    response = await post(ToolCallMiddleware(TextBackend([hermes("oops")])))
    assert "malformed=1" in response.headers["x-toolcall"]


@STREAMS
@pytest.mark.parametrize("malformed", ["repair", "forward"])
async def test_a_custom_tool_takes_any(malformed: Any, stream: bool) -> None:
    tool = {"type": "custom", "custom": {"name": "f"}}
    app = ToolCallMiddleware(TextBackend([hermes('"ls -la"')]), malformed_arguments=malformed)
    response = await post(app, tools=[tool], stream=stream)
    assert response.status_code == 200
    assert '"input":"ls -la"' in response.text
    assert "<tool_call>" not in response.text
    assert "malformed" not in response.headers["x-toolcall"]


# -- cut -------------------------------------------------------------------------------------------------------------


@STREAMS
@MODES
@pytest.mark.parametrize("arguments", INSIDE)
async def test_it_stays_cut(arguments: str, way: str, stream: bool) -> None:
    response = await ask(way, arguments, end="", stream=stream)
    choice = answered(response)
    assert choice.finish_reason == "length"
    assert [call.name for call in choice.calls] == ["f"]
    assert arguments.startswith(choice.calls[0].arguments.rstrip())
    with pytest.raises(json.JSONDecodeError):
        json.loads(choice.calls[0].arguments)
    if not stream:
        assert "; cut=1" in response.headers["x-toolcall"]


@STREAMS
@MODES
@pytest.mark.parametrize("arguments", BRACKETS)
async def test_closing_brackets_may_be_added_behind_a_value(arguments: str, way: str, stream: bool) -> None:
    response = await ask(way, arguments, end="", stream=stream)
    choice = answered(response, tools={"f"})
    assert choice.finish_reason == "tool_calls"
    assert choice.calls[0].arguments.startswith(arguments)


@STREAMS
@MODES
@pytest.mark.parametrize("arguments", INSIDE)
async def test_it_is_no_call_where_calls_leave_when_they_are_complete(arguments: str, way: str, stream: bool) -> None:
    response = await ask(way, arguments, end="", stream=stream, stream_arguments=False)
    choice = answered(response)
    assert (choice.calls, choice.finish_reason) == ([], "length")
    assert "f" in choice.content


@STREAMS
@MODES
@pytest.mark.parametrize("settings", [{"malformed_arguments": "error"}, {"validate_arguments": "error"}])
async def test_it_is_an_error_where_malformed_arguments_are(settings: dict[str, Any], way: str, stream: bool) -> None:
    message = check_refused(await ask(way, INSIDE[0], end="", stream=stream, **settings))
    assert "ends inside" in message


@STREAMS
async def test_an_unclosed_string_that_takes_the_closing_marker_is_not_complete(stream: bool) -> None:
    choice = answered(await ask("prompt", '{"x": "see', end="</tool_call>", stream=stream))
    assert choice.finish_reason == "length"


@STREAMS
async def test_nothing_leaves_behind_a_call_that_is_cut(stream: bool) -> None:
    end = "</tool_call>\n" + hermes('{"x": 1}')
    choice = answered(await ask("prompt", '{"x": ', end=end, stream=stream))
    assert choice.finish_reason == "length"
    assert [call.arguments.rstrip() for call in choice.calls] == ['{"x":']
