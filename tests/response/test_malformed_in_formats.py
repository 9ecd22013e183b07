"""Malformed arguments in every format: forwarded in the words of its syntax, text to the byte, and never a call.

The samples are what each family itself writes, damaged: cut in a value, with a fault in the middle, or of another kind.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.helpers.answers import NativeBackend, answered, post
from tests.helpers.fakes import TextBackend
from tests.helpers.policies import policy as made_policy
from tests.parsing.streams import calls_in, read
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.answer.operations import Arguments
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolCall, ToolSet
from toolcall_middleware.parsing.events import CallStart, Text
from toolcall_middleware.response.choice import ChoiceAnswer

from .test_malformed_arguments import GRAVE, SLIGHT

STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
NAMES = registry.names()
PROPERTIES = {"x": {"type": "string"}, "n": {"type": "integer"}}
TOOL = {
    "type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": PROPERTIES}}
}  # fmt: skip
ARGUMENTS = '{"x": "Paris", "n": 1}'
# How the first argument of ARGUMENTS begins, in the order in which a text is looked through.
FIRST = re.compile(
    r'\{"x"|\(x=|\{x:|<x>|<(?:[\w:]*|｜\w+｜[ ]?)param(?:eter)?(?:=x| name="x")|<[\w|]*arg_key[\w:]*>x'
    r'|<\|open\|>argument key="x"|<\|tool_arg:start\|>x'
)
MARK = "]<]minimax[>["
CLOSING = re.compile(
    r"(?<=Paris)\n?(?:</[^>]*>|</｜DSML｜[ ]?parameter>|<\|close\|>argument<\|sep\|>|<\|tool_arg:end\|>"
    r"|\]<\]minimax\[>\[</x>)"
)


def rendered(name: str, arguments: str) -> str:
    return registry.get(name).render_calls([ToolCall("f", arguments, "call_1")])


def written(name: str) -> str:
    text = rendered(name, ARGUMENTS)
    return text.replace('\\"', '"') if name == "function_call" else text


def first(name: str, text: str) -> int:
    found = FIRST.search(text)
    assert found, name
    before = text[: found.start()]
    return found.start() - len(MARK) * before.endswith(MARK)


def in_string(name: str, text: str) -> str:
    """As the family has it: OpenAI's own form has the arguments in a JSON string."""
    if name != "function_call":
        return text
    at = first(name, text) - 1
    assert text[at] == '"'
    inner = text[at + 1 :].split('}"', maxsplit=1)[0] + "}" if text.endswith("}}") else text[at + 1 :]
    return text[: at + 1] + inner.replace('"', '\\"') + text[at + 1 + len(inner) :]


def cut(name: str) -> tuple[str, str]:
    """(what the model writes, its arguments): the text ends in a value."""
    text = written(name)
    text = text[: text.index("Paris") + 3]
    return in_string(name, text), text[first(name, text) :]


def faulty(name: str) -> tuple[str, str]:
    """(what the model writes, its arguments): a call that ends, with a fault in its arguments."""
    text = written(name)
    begin = first(name, text)
    if text.startswith('{"x"', begin):
        text = text.replace('"n": 1}', '"n": 01,}')
        return in_string(name, text), text[begin : text.index("01,}") + 4]
    if text.startswith("(x=", begin):
        text = text.replace("n=1)", "n= 1 2)")
        return text, text[begin : text.index("1 2)") + 4]
    if text.startswith("{x:", begin):
        text = text.replace("n:1}", "n: 1 2}")
        return text, text[begin : text.index("1 2}") + 4]
    text = CLOSING.sub("", text, count=1)
    assert text != written(name)
    behind = re.search(r"(?<=1)\n?(?:<[^1]*?argument<\|sep\|>|<\|[^|]*\|>|\]<\]minimax\[>\[</n>|</[^>]*>)", text)
    assert behind
    return text, text[begin : behind.end()]


def asked(name: str, mode: str, text: str, **settings: Any) -> ToolCallMiddleware:
    settings = {"malformed_arguments": "forward", **settings}
    if mode == "native":
        deltas = [{"content": text[at : at + 3]} for at in range(0, len(text), 3)]
        return ToolCallMiddleware(Native(text, deltas), mode="native", **settings)
    return ToolCallMiddleware(TextBackend([text]), format=name, **settings)


class Native(NativeBackend):
    """Leaves calls in the text as the model wrote them: in a whole answer all of it."""

    def __init__(self, text: str, deltas: list[dict[str, Any]]) -> None:
        super().__init__(*deltas, {"content": text})
        self._pieces = (*deltas,), ({"content": text},)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def told() -> Any:
            message = await receive()
            self.deltas = self._pieces[b'"stream":true' not in message.get("body", b"").replace(b" ", b"")]
            return message

        await super().__call__(scope, told, send)


def modes(name: str) -> list[str]:
    """What a native backend leaves in its text is read by `auto`, which knows most families' markers."""
    tools = ToolSet.of([Tool("f", "", {"type": "object", "properties": PROPERTIES})])
    parser = registry.get("auto").parser(tools, ParserOptions())
    events = [*parser.feed(written(name)), *parser.finish()]
    return ["prompt", "native"] if any(isinstance(event, CallStart) for event in events) else ["prompt"]


WAYS = pytest.mark.parametrize(("name", "mode"), [(name, mode) for name in NAMES for mode in modes(name)])


@STREAMS
@WAYS
async def test_a_call_that_is_cut_in_a_value_leaves_as_it_was_written(name: str, mode: str, stream: bool) -> None:
    text, arguments = cut(name)
    response = await post(asked(name, mode, text), stream=stream, tools=[TOOL])
    choice = answered(response, verbatim=True, own_ids=mode == "prompt")
    assert choice.named_calls == [("f", arguments)]
    assert choice.finish_reason == "length"
    assert not (choice.content or "").strip()
    assert stream or "; cut=1" in response.headers["x-toolcall"]


# A value of `tool_tags` ends only where what follows its tag says so: without the tag all that follows is in it.
ENDING = [name for name in NAMES if name != "tool_tags"]


@STREAMS
@pytest.mark.parametrize(("name", "mode"), [(name, mode) for name in ENDING for mode in modes(name)])
async def test_a_fault_in_the_middle_leaves_as_it_was_written(name: str, mode: str, stream: bool) -> None:
    text, arguments = faulty(name)
    response = await post(asked(name, mode, text), stream=stream, tools=[TOOL])
    choice = answered(response, verbatim=True, own_ids=mode == "prompt")
    assert choice.named_calls == [("f", arguments)]
    assert choice.finish_reason == "tool_calls"
    assert stream or "; malformed=1" in response.headers["x-toolcall"]


@STREAMS
@WAYS
async def test_what_is_right_leaves_as_ever(name: str, mode: str, stream: bool) -> None:
    text = rendered(name, ARGUMENTS)
    response = await post(asked(name, mode, text), stream=stream, tools=[TOOL])
    choice = answered(response, tools={"f"}, own_ids=mode == "prompt")
    assert [(call.name, call.parsed) for call in choice.calls] == [("f", {"x": "Paris", "n": 1})]
    assert "malformed" not in response.headers["x-toolcall"]


@STREAMS
@pytest.mark.parametrize("name", ENDING)
async def test_two_calls_do_not_mix(name: str, stream: bool) -> None:
    text, arguments = faulty(name)
    response = await post(asked(name, "prompt", f"{text}\n{text}"), stream=stream, tools=[TOOL])
    choice = answered(response, verbatim=True)
    assert choice.named_calls[0] == ("f", arguments)
    assert all(call == ("f", arguments) for call in choice.named_calls)


# -- those that write arguments as JSON ------------------------------------------------------------------------------


MARK_JSON = '{"mark": 0}'
UNREADABLE = ["oops not json", "[1]", '"plain words"', "5", "true", "-", "(a=1)"]
WRITTEN = {name: text for name in NAMES if MARK_JSON in (text := rendered(name, MARK_JSON))}
BARE = {"llama3_json", "xlam", "action_json", "functionary_v32", "react"}  # no marker, so not all of these are calls
CHANNEL = re.compile(r"<\|channel\|>.*<\|message\|>")  # the header of a message is no content of it
TAKES_TEXT = {"harmony", "llm-jp-harmony"}
JSON = [name for name in WRITTEN if name != "mirothinker"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    # Where a message's text is the tool's one argument, only JSON can be unreadable.
    [(name, one) for name in JSON for one in UNREADABLE if name not in TAKES_TEXT or one[0] in '["'],
)
def test_it_is_text_to_the_byte_in_any_format_with_json_arguments(name: str, arguments: str) -> None:
    text = (
        WRITTEN[name].replace(MARK_JSON, arguments).removesuffix("<|end_message|>")
    )  # the end of a turn is no content
    for pieces in ([text], list(text)):
        events = read(registry.get(name).parser(ToolSet.of([Tool("f")]), ParserOptions()), pieces)
        assert not any(isinstance(event, CallStart) for event in events)
        said = "".join(event.text for event in events if isinstance(event, Text))
        assert said == text or (name == "llm-jp-harmony" and said == CHANNEL.sub("", text))


@pytest.mark.parametrize("name", JSON)
@pytest.mark.parametrize("arguments", ["null", "[]", '""', '"{\\"x\\": 1}"', '{"x": 1}', "{x: 1,}"])
def test_what_can_be_arguments_is_a_call(name: str, arguments: str) -> None:
    text = WRITTEN[name].replace(MARK_JSON, arguments)
    tools = ToolSet.of([Tool("f")])
    for pieces in ([text], list(text)):
        held = calls_in(read(registry.get(name).parser(tools, ParserOptions()), pieces))
        assert held == calls_in(read(registry.get(name).parser(tools, ParserOptions(any_arguments=None)), pieces))
        assert name in BARE or [json.loads(call.arguments) for call in held] in ([{}], [{"x": 1}])


@pytest.mark.parametrize("name", WRITTEN)
def test_none_is_a_call_in_any_format_with_json_arguments(name: str) -> None:
    fmt, tools = registry.get(name), ToolSet.of([Tool("f", "", {"type": "object"})])
    policy = made_policy(stream_arguments=False, malformed_arguments="error")
    for kind, damaged in (SLIGHT | GRAVE).items():
        for pieces in ([WRITTEN[name].replace(MARK_JSON, damaged)], list(WRITTEN[name].replace(MARK_JSON, damaged))):
            answer = ChoiceAnswer(fmt.parser(tools, ParserOptions(keep_raw=True)), policy)
            ops = [op for piece in pieces for op in answer.feed(piece)] + answer.finish("stop")[0]
            assert not any(isinstance(op, Arguments) for op in ops), kind
