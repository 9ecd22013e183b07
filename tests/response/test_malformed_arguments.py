"""Arguments that are malformed, in every way that was seen of models and for every setting: told, repaired, refused,
forwarded or text. A call whose text ends inside a value is never made to look complete, whoever says that it ended.

ways: a call in the text, a backend's own that was not asked for, and one in `mode=native`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.helpers import asgi_client
from tests.helpers.answers import GOOD, STREAMS, TOOL, Case, NativeBackend, answered, case, cases, check, post, refusal
from tests.helpers.fakes import Answer, TextBackend
from toolcall_middleware import ToolCallMiddleware

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
BRACKETS = {'{"x": "a"': "}", '{"x": [1]': "}", '{"x": {"y": true': "}}", '{"x": null': "}"}
ID = "call_" + "a" * 24
WAYS, MODES = ("prompt", "own", "native"), ("prompt", "native", "auto")
BEGIN = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
SYNTAXES = {
    "mistral_v11": '[TOOL_CALLS]f[ARGS]{"x": 1,}',
    "harmony": '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"x": 1,}<|call|>',
    "json": '```json\n{"tool_calls": [{"arguments": {"x": 1,}, "name": "f"}]}\n```',
    "qwen3_coder": '<tool_call>\n<function=f>\n{"x": 1,}\n</function>\n</tool_call>',
    "functionary_v31": '<function=f>{"x": 1,}</function>',
}


def hermes(arguments: str, end: str = "}\n</tool_call>") -> str:
    return f'<tool_call>\n{{"name": "f", "arguments": {arguments}{end}'


def native(*pieces: str, finish: str = "stop") -> NativeBackend:
    """A backend whose own call has arguments that come in these pieces."""
    deltas: list[dict[str, Any]] = [{"index": 0, "function": {"arguments": piece}} for piece in pieces]
    deltas[0] |= {"id": ID, "type": "function", "function": {"name": "f", "arguments": pieces[0]}}
    return NativeBackend(*({"tool_calls": [delta]} for delta in deltas), finish=finish)


def in_pieces(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def model(way: str, arguments: str, end: str = "}\n</tool_call>") -> str | NativeBackend:
    """What calls `f` so. end: what follows in a text."""
    return hermes(arguments, end) if way == "prompt" else native(arguments)


def asked(name: str, way: str, arguments: str, *, end: str = "}\n</tool_call>", **expected: Any) -> Any:
    """A case of one way."""
    mode = {"own": "prompt"}.get(way, way)
    return case(f"{name}, {way}", model(way, arguments, end), mode=mode, **expected)


def ways(name: str, some: Sequence[str], arguments: str, **expected: Any) -> list[Any]:
    """A case of each way."""
    return [asked(name, way, arguments, **expected) for way in some]


# -- each kind, by setting -------------------------------------------------------------------------------------------

ANY = {"tools": [FREE]}
BY_CLIENT = {**ANY, "request_options": {"validate_tool_arguments": True}}
REFUSED: Any = {"code": "malformed_tool_arguments", "status": 422}
FORWARD: Any = {"malformed_arguments": "forward", "rules": {"verbatim": True}}
REPAIR: Any = {"validate_arguments": "error", "malformed_arguments": "repair", "head": "; repaired=1"}


def forwarded(kind: str, way: str) -> Any:
    """As it was written; a JSON string that holds arguments is read."""
    written, cut = KINDS[kind], kind in CUT and way != "prompt"
    expected: Any = {"calls": [("f", json.loads(written) if written[0] == '"' else written)]}
    told = {"finish": "length", "head": "; cut=1"} if cut else {"finish": "tool_calls", "head": "; malformed=1"}
    return asked(f"{kind} is forwarded", way, written, asked=ANY, **expected, **told, **FORWARD)


@cases(
    *(asked(kind, way, KINDS[kind], asked=ANY, validate_arguments="error", **REFUSED) for kind, way in CASES),
    *(asked(f"{kind}, by the client's wish", way, KINDS[kind], asked=BY_CLIENT, **REFUSED) for kind, way in CASES),
    *(forwarded(kind, way) for kind, way in CASES if way != "prompt" or kind not in OPEN),
    *(asked("sound", way, SOUND, asked=ANY, calls=[("f", SOUND)], validate_arguments="error") for way in WAYS),
    *(asked(f"{kind} is repaired", way, SLIGHT[kind], asked=ANY, **REPAIR) for kind in SLIGHT for way in WAYS),
)  # fmt: skip
async def test_each_kind_is_what_the_settings_say(one: Case) -> None:
    await check(one)


@pytest.mark.parametrize("kind", KINDS)
async def test_nor_where_it_comes_in_pieces(kind: str) -> None:
    backend = native("", *in_pieces(KINDS[kind], 3))
    app = ToolCallMiddleware(backend, mode="native", validate_arguments="error")
    assert refusal(await post(app, stream=True, tools=[FREE]))["code"] == "malformed_tool_arguments"


# -- refused, forwarded, text ----------------------------------------------------------------------------------------

FORWARDED: Any = {"malformed_arguments": "forward"}
CHECKED: Any = {**FORWARDED, "validate_arguments": "error"}
ENDED, SLIP = ("f", '{"x": '), ("f", '{"x": 1,}')
COMMENTED = '{"x": 1 ' + "/* a */ " * 20 + "}"
SEVERAL = ['{"x": 1,}', '{"x": 2}', "{'x': 3}"]
NO_NAME = '<tool_calls>[{"name": no", "arguments": {"x": "other",}}]</tool_calls><function name="f"></function>'
OOPS, HALF = hermes("oops"), hermes('{"x": ', "")
IN_PLACE = [f"{BEGIN}{one}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>" for one in ("5", "city is Paris", "dict(x=1)")]
MUST = {"tool_choice": "required"}


def no_object(arguments: str, way: str) -> Any:
    quoted = arguments if way == "prompt" else json.dumps(arguments)[1:-1]
    says = ("are not a JSON object", quoted)
    return asked(f"{arguments} is no object", way, arguments, says=says, malformed_arguments="error", **REFUSED)


def raw(arguments: str, mode: str) -> Any:
    content = f'{{"name":"f","arguments":{json.dumps(arguments)}}}'
    backend = native(arguments, finish="tool_calls")
    return case(f"native {arguments}, {mode}", backend, mode=mode, calls=[], finish="stop", content=content)


@cases(
    *(no_object(one, way) for one in ("5", '["x"]', '"Paris"', "true") for way in MODES),
    asked("words", "prompt", "oops", malformed_arguments="error", **REFUSED),
    *ways("too large", MODES, f'{{"x": "{"a" * 500}"}}', code="limit_exceeded", max_arguments_bytes=100),
    *ways("right", WAYS, '{"x": 1}', calls=[("f", '{"x": 1}')], head="; calls=1;", **FORWARDED),
    *ways(
        "right, in other words", WAYS, '{ "x" : 1e0 }', calls=[("f", '{ "x" : 1e0 }')], head="; calls=1;", **FORWARDED,
    ),
    *ways("empty", WAYS, "{}", calls=[("f", "{}")], head="; calls=1;", **FORWARDED),
    asked("ends in a value", "prompt", '{"x": ', end="", calls=[ENDED], finish="length", **FORWARD),
    asked("closes in a value", "prompt", '{"x": ', end="</tool_call>", calls=[ENDED], finish="length", **FORWARD),
    case("cut by the tokens", Answer(HALF, "length"), calls=[], content=HALF, finish="length", **FORWARDED),
    *ways("a check looks at what it means", WAYS, '{"x": 1,}', calls=[SLIP], validate_arguments="error", **FORWARD),
    *ways("a value of another type", WAYS, '{"x": "no",}', code="invalid_tool_arguments", **CHECKED),
    *ways("a number", WAYS, "5", **REFUSED, **CHECKED),
    *ways("no limit is passed", WAYS, COMMENTED, code="limit_exceeded", max_arguments_bytes=100, **FORWARDED),
    *ways("an object is due", WAYS, '{"x": 1,}', arguments_as_object=True, **FORWARDED, **REFUSED),
    *(case(f"in {name}", text, calls=[SLIP], format=name, **FORWARD) for name, text in SYNTAXES.items()),
)  # fmt: skip
async def test_refused_or_forwarded(one: Case) -> None:
    await check(one)


@cases(
    case("several calls do not mix", "\n".join(map(hermes, SEVERAL)), calls=[("f", one) for one in SEVERAL], **FORWARD),
    *(case(f"words, {at}", one, calls=[], content=one, finish="stop", **FORWARDED) for at, one in enumerate(IN_PLACE)),
    case("what became no call is no call's arguments", NO_NAME, calls=[("f", "{}")], **FORWARD),
    case("a required call is asked for again", [OOPS, GOOD], asked=MUST, calls=[("f", '{"x": 3}')], tries=2),
    *(raw(one, mode) for mode in ("prompt", "native") for one in ("oops not json", ": 1}", "}", ",")),
    case("words are cut", Answer(hermes("oops", ""), "length"), calls=[("f", "")], rules={"objects": False}),
    *(case(f"{one} is cut", Answer(hermes(one, ""), "length"), calls=[]) for one in ("5", "[1", '"plain')),
    case("the outcome is malformed", OOPS, head="malformed=1"),
)  # fmt: skip
async def test_text(one: Case) -> None:
    await check(one)


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
    body = {"model": "m", **said, "tools": [tool], "stream": stream}
    response = await asgi_client.post(app, body, f"/v1/{path}")
    assert response.status_code == 200
    assert "oops" in response.text
    for sign in ('"error":{', '"tool_use"', '"function_call"', '"tool_calls":['):
        assert sign not in response.text.replace(": ", ":")


@STREAMS
@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}```", "\n```JSON\r\n\n{}\n```\n"])
async def test_a_code_fence_around_native_arguments_is_left_out(fence: str, size: int, stream: bool) -> None:
    arguments = fence.replace("{}", '{"x": 1}')
    backend = native(*(in_pieces(arguments, size) if stream else [arguments]))
    choice = answered(await post(ToolCallMiddleware(backend, mode="native"), stream=stream), tools={"f"})
    assert choice.named_calls == [("f", '{"x": 1}')]


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

IN_VALUE: Any = {"end": "", "says": "ends inside", **REFUSED}
BEGUN: Any = {"calls": [("f", "")], "finish": "length", "head": "; cut=1;", "rules": {"objects": False}}
HELD: Any = {"end": "", "calls": [], "finish": "length", "stream_arguments": False}
LATER = "}\n</tool_call>\n" + hermes('{"x": ', "</tool_call>\n") + hermes('{"x": 2}')
REQUIRED: Any = {"calls": [("f", '{"x": 1}'), ("f", '{"x": 2}')], "finish": "length", "asked": MUST}


def still_cut(arguments: str) -> list[Any]:
    calls = [("f", arguments.removesuffix(", "))]
    told: Any = {"finish": "length", "head": "; cut=1;", "rules": {"objects": False}}
    return ways(f"{arguments} stays cut", MODES, arguments, end="", calls=calls, **told)


def closed(arguments: str, end: str) -> list[Any]:
    calls = [("f", arguments + end)]
    return ways(f"{arguments} is closed", MODES, arguments, end="", calls=calls, finish="tool_calls")


@cases(
    *(row for one in INSIDE for row in still_cut(one)),
    *(row for one, end in BRACKETS.items() for row in closed(one, end)),
    *(row for one in INSIDE for row in ways(f"{one}, complete ones only", MODES, one, **HELD)),
    *(row for one in ("n", "nul", '"see') for row in ways(f"{one} is begun", MODES, one, end="", **BEGUN)),
    *ways("refused", MODES, INSIDE[0], malformed_arguments="error", **IN_VALUE),
    *ways("checked", MODES, INSIDE[0], validate_arguments="error", **IN_VALUE),
    asked("a string takes the closing marker", "prompt", '{"x": "see', end="</tool_call>", finish="length"),
    asked("nothing follows it", "prompt", '{"x": ', end=f"</tool_call>\n{GOOD}", calls=[ENDED], finish="length"),
    asked("a later one is left out where calls are required", "prompt", '{"x": 1}', end=LATER, **REQUIRED),
)  # fmt: skip
async def test_what_is_cut_stays_cut(one: Case) -> None:
    await check(one)
