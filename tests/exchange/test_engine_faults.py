"""Known faults of engines' own tool calling, as the engines send them, and what a client gets all the same.

Each stream is written from the symptom of the issue that stands above it, and driven through the exchange in
`mode=native`: whole, event by event, in single bytes, and cut once at many a byte.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.helpers.driven import JSON, Driven
from tests.helpers.stream_rules import Answered, check_stream, check_whole
from tests.response.streams import chunk, completion, stream
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

NAMES = {"get_weather", "get_time", "add", "run"}


def tool(name: str, *required: str, kind: str = "string") -> dict[str, Any]:
    properties = {key: {"type": kind} for key in required}
    parameters = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [tool("get_weather", "city"), tool("get_time"), tool("add", "a", "b", kind="integer"), tool("run", "command")]
PARIS = '{"city": "Paris"}'
ASKED: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS}


def call(
    arguments: Any = None,
    name: str | None = None,
    index: int | None = 0,
    id: str | None = None,  # noqa: A002 - the wire's own name
    **more: Any,
) -> dict[str, Any]:
    """One entry of `delta.tool_calls`."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    entry: dict[str, Any] = {"function": function, **more}
    if index is not None:
        entry["index"] = index
    if id is not None:
        entry.update(id=id, type="function")
    return entry


def calls(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A delta with calls."""
    return {"tool_calls": list(entries), **more}


@dataclass(frozen=True, kw_only=True)
class Fault:
    """deltas: of the stream. message: the whole answer where the fault is in that too. due: calls that must come."""

    issue: str
    deltas: list[dict[str, Any]]
    message: dict[str, Any] | None = None
    said: str | None = "tool_calls"
    due: list[tuple[str, str]]
    content: str | None = None
    reasoning: str = ""
    reason: str = "tool_calls"
    request: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


FAULTS = [
    # The hermes parser gives no arguments for a tool that has none.
    Fault(
        issue="vLLM #28806",
        deltas=[calls(call(None, "get_time", id="chatcmpl-tool-1"))],
        message=calls(call("", "get_time", None, "chatcmpl-tool-1")),
        due=[("get_time", "{}")],
    ),
    # The hermes parser takes the last `"}` of the arguments for its own.
    Fault(
        issue="vLLM #13459",
        deltas=[calls(call(None, "get_weather", id="1")), calls(call('{"city": "Par')), calls(call("is"))],
        due=[("get_weather", '{"city": "Paris')],
        reason="length",  # what is missing is not made up
    ),
    # Only the first delta has an id; the others have null for all but the arguments.
    Fault(
        issue="vLLM #19056",
        deltas=[
            calls({"index": 0, "id": "1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}),
            *(
                calls({"index": 0, "id": None, "type": None, "function": {"name": None, "arguments": piece}})
                for piece in ('{"ci', 'ty": ', '"Paris"', "}")
            ),
        ],
        due=[("get_weather", PARIS)],
    ),
    # Braces in a string break the parser: the rest of the arguments never comes.
    Fault(
        issue="vLLM #21544",
        deltas=[
            calls(call(None, "run", id="1")),
            calls(call('{"command": "mkdir -p test/')),
            calls(call("{test1,test2")),
        ],
        due=[("run", '{"command": "mkdir -p test/{test1,test2')],
        reason="length",
    ),
    # Partial JSON is completed and compared: brackets are missing ...
    Fault(
        issue="vLLM #10398",
        deltas=[calls(call("", "get_weather", id="1")), calls(call('{"city"')), calls(call(': "Paris"'))],
        due=[("get_weather", PARIS)],
    ),
    # ... or come twice.
    Fault(
        issue="vLLM #10398",
        deltas=[calls(call("", "get_weather", id="1")), calls(call('{"city": "Paris"}')), calls(call('"}'))],
        due=[("get_weather", PARIS)],
    ),
    # The Mistral parser loses the end behind an integer.
    Fault(
        issue="vLLM #13622",
        deltas=[calls(call("", "add", id="1")), calls(call('{"a": 3,')), calls(call(' "b": 4'))],
        due=[("add", '{"a": 3, "b": 4')],
        reason="length",
    ),
    # With a stream interval above one the arguments are lost: they are `{}`, or nothing.
    Fault(
        issue="vLLM #31501",
        deltas=[calls(call("{}", "get_weather", id="1"))],
        due=[("get_weather", "{}")],
    ),
    # Several tokens in one step: the first of two calls has lost its arguments.
    Fault(
        issue="vLLM #41967",
        deltas=[
            calls(call(None, "get_time", id="1"), call(None, "get_weather", 1, "2")),
            calls(call('{"city": ', index=1)),
            calls(call('"Paris"}', index=1)),
        ],
        due=[("get_time", "{}"), ("get_weather", PARIS)],
    ),
    # finish_reason says that there was a call, and there is none.
    Fault(
        issue="vLLM #44326",
        deltas=[{"content": ""}],
        message={"content": None, "tool_calls": []},
        due=[],
        reason="stop",
    ),
    # `required`, and the server has no parser for it: the call lies in the text, as its constraint made the model
    # write it, beside an empty list and `tool_calls` as the reason.
    Fault(
        issue="vLLM #53255",
        deltas=[{"content": '[{"name": "get_weather", "para'}, {"content": 'meters": {"city": "Paris"}}]'}],
        message={"content": '[{"name": "get_weather", "parameters": {"city": "Paris"}}]', "tool_calls": []},
        due=[("get_weather", PARIS)],
        request={"tool_choice": "required"},
    ),
    # The name is cut at its underscore.
    Fault(
        issue="vLLM #39757",
        deltas=[calls(call("", "get_wea", id="1")), calls(call('{"city": ')), calls(call('"Paris"}'))],
        message=calls(call(PARIS, "get", None, "1")),
        due=[("get_weather", PARIS)],
    ),
    # Behind a call without arguments every other one has none.
    Fault(
        issue="vLLM #47901",
        deltas=[calls(call("{}", "get_time", id="1")), calls(call("{}", "get_weather", 1, "2"))],
        due=[("get_time", "{}"), ("get_weather", "{}")],
    ),
    # A call that max_tokens cut off: the reason is `tool_calls` all the same. In a key it cannot be anything else ...
    Fault(
        issue="vLLM #53269",
        deltas=[calls(call("", "add", id="1")), calls(call('{"a": 3, "b'))],
        message=calls(call('{"a": 3, "b', "add", None, "1")),
        due=[("add", '{"a": 3, "b')],
        reason="length",
    ),
    # ... elsewhere the limit tells.
    Fault(
        issue="vLLM #53269",
        deltas=[calls(call("", "run", id="1")), calls(call('{"command": "echo one')), calls(call(" two three"))],
        message=calls(call('{"command": "echo one two three', "run", None, "1")),
        due=[("run", '{"command": "echo one two three')],
        request={"max_tokens": 10},
        reason="length",
    ),
    # No finish_reason at all.
    Fault(
        issue="vLLM #27572",
        deltas=[calls(call(PARIS, "get_weather", id="1"))],
        said=None,
        due=[("get_weather", PARIS)],
    ),
    # `required`: each delta's text counts twice, and so do the arguments.
    Fault(
        issue="vLLM #24509",
        deltas=[calls(call("", "add", id="1")), calls(call('{"a": 9, "b": 5}')), calls(call('{"a": 9, "b": 5}'))],
        message=calls(call('{"a": 9, "b": 5}{"a": 9, "b": 5}', "add", None, "1")),
        due=[("add", '{"a": 9, "b": 5}')],
        request={"tool_choice": "required"},
    ),
    # parallel_tool_calls is ignored.
    Fault(
        issue="vLLM #9451",
        deltas=[calls(call(PARIS, "get_weather", id="1")), calls(call("{}", "get_time", 1, "2"))],
        message=calls(call(PARIS, "get_weather", None, "1"), call("{}", "get_time", None, "2")),
        due=[("get_weather", PARIS)],
        request={"parallel_tool_calls": False},
    ),
    # The index begins at 1, or leaves one out.
    Fault(
        issue="SGLang #35564",
        deltas=[calls(call("{}", "get_time", 1, "1")), calls(call(PARIS, "get_weather", 3, "2"))],
        due=[("get_time", "{}"), ("get_weather", PARIS)],
    ),
    # One more call than there is, with nothing in it.
    Fault(
        issue="SGLang #35564",
        deltas=[calls(call("", "", 0)), calls(call(PARIS, "get_weather", 1, "2")), calls(call("", None, 2))],
        due=[("get_weather", PARIS)],
    ),
    # Two complete calls in one step: the second has no arguments.
    Fault(
        issue="SGLang #37634",
        deltas=[calls(call(PARIS, "get_weather", id="1"), call("", "get_time", 1, "2"))],
        due=[("get_weather", PARIS), ("get_time", "{}")],
    ),
    # A name that is not offered: its index stays empty, and its arguments are put behind those of the call before.
    Fault(
        issue="SGLang #34677",
        deltas=[
            calls(call("", "get_weather", id="1")),
            calls(call(PARIS)),
            calls(call('{"x": 1}')),
            calls(call("{}", "get_time", 2, "2")),
        ],
        due=[("get_weather", PARIS), ("get_time", "{}")],
    ),
    # ... or it comes as a call.
    Fault(
        issue="SGLang #34677",
        deltas=[calls(call("{}", "nope", id="1")), calls(call("", "get_weather", 1, "2"), call(PARIS, index=1))],
        due=[("get_weather", PARIS)],
        settings={"unknown_tool": "drop"},
    ),
    # Every call has the index 0; everything else is null, and the thoughts have a field of their own.
    Fault(
        issue="SGLang #6310",
        deltas=[
            {"role": None, "content": None, "reasoning_content": "Two.", "tool_calls": None},
            calls(call("", "get_weather", id="1"), role=None, content=None),
            calls(call(PARIS), role=None, content=None),
            calls(call("", "get_time", id="2"), role=None, content=None),
            calls(call("{}"), role=None, content=None),
        ],
        message=calls(call(PARIS, "get_weather", 0, "1"), call("{}", "get_time", 0, "2"), reasoning_content="Two."),
        due=[("get_weather", PARIS), ("get_time", "{}")],
        reasoning="Two.",
    ),
    # ... and no id either.
    Fault(
        issue="SGLang #6310",
        deltas=[calls(call(PARIS, "get_weather")), calls(call("", "get_time")), calls(call("{}"))],
        due=[("get_weather", PARIS), ("get_time", "{}")],
    ),
    # Only the first call is read; the others stay in the text.
    Fault(
        issue="llama.cpp #14101",
        deltas=[
            calls(call("", "get_weather", id="1")),
            calls(call(PARIS)),
            {"content": '\n<tool_call>\n{"name": "get_'},
            {"content": 'time", "arguments": {}}\n</tool_call>'},
        ],
        message=calls(
            call(PARIS, "get_weather", None, "1"),
            content='<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>',
        ),
        due=[("get_weather", PARIS), ("get_time", "{}")],
    ),
    # The same while the first one is still open: its end comes behind the text.
    Fault(
        issue="llama.cpp #14101",
        deltas=[
            calls(call('{"city": ', "get_weather", id="1")),
            {"content": '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'},
            calls(call('"Paris"}')),
        ],
        due=[("get_weather", PARIS), ("get_time", "{}")],
    ),
    # llama.cpp before #13800: the name in each delta, the id within the function.
    Fault(
        issue="llama.cpp #13774",
        deltas=[
            calls({"index": 0, "function": {"id": "1", "name": "get_weather", "arguments": piece}})
            for piece in ('{"city": ', '"Paris"', "}")
        ],
        due=[("get_weather", PARIS)],
    ),
    # The last delta repeats id, type and name, beside the rest of the arguments and the finish_reason.
    Fault(
        issue="vLLM #44098",
        deltas=[
            calls(call("", "get_weather", id="1")),
            calls(call('{"city": "Pa')),
            calls(call('ris"}', "get_weather", id="1")),
        ],
        due=[("get_weather", PARIS)],
    ),
    # What was sent already comes again, encoded once more.
    Fault(
        issue="vLLM #35347",
        deltas=[calls(call("", "get_weather", id="1")), calls(call(PARIS)), calls(call(json.dumps(PARIS)))],
        due=[("get_weather", PARIS)],
    ),
    # Arguments that a model wrote as a string are encoded as one.
    Fault(
        issue="vLLM #54964",
        deltas=[calls(call(json.dumps(PARIS), "get_weather", id="1"))],
        message=calls(call(json.dumps(PARIS), "get_weather", None, "1")),
        due=[("get_weather", PARIS)],
    ),
    # Ollama's own dialect: whole calls as objects, each of them the first.
    Fault(
        issue="LiteLLM #37792",
        deltas=[calls(call({"city": "Paris"}, "get_weather")), calls(call({}, "get_time"))],
        message=calls(call({"city": "Paris"}, "get_weather", None), call({}, "get_time", None)),
        due=[("get_weather", '{"city":"Paris"}'), ("get_time", "{}")],
        said="stop",
    ),
]
IDS = [f"{fault.issue}-{at}" for at, fault in enumerate(FAULTS)]


def stream_of(fault: Fault) -> bytes:
    deltas = [{"role": "assistant", "content": ""}, *fault.deltas]
    return stream(*map(chunk, deltas), *([] if fault.said is None else [chunk({}, fault.said)]))


def asked(fault: Fault, **fields: Any) -> Driven:
    once = {} if "tool_choice" in fault.request else {"retries": 0}  # else an empty answer is asked for again
    made = Driven(Settings(**{"mode": "native", **once, **fault.settings}), BackendMemory())
    made.asks(**ASKED, **fault.request, **fields)
    return made


def streamed(fault: Fault, pieces: list[bytes]) -> bytes:
    return asked(fault, stream=True).streams(*pieces)


def check(fault: Fault, answer: Answered) -> None:
    choice = answer.only
    assert choice.named_calls == fault.due
    assert (choice.content or None) == fault.content
    assert choice.reasoning == fault.reasoning
    assert choice.finish_reason == fault.reason


def expected(fault: Fault) -> dict[str, Any]:
    return {"tools": NAMES, "own_ids": False, "parallel": fault.request.get("parallel_tool_calls", True)}


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_a_faulty_stream_comes_out_right(fault: Fault) -> None:
    data = stream_of(fault)
    whole = streamed(fault, [data])
    check(fault, check_stream(whole, **expected(fault)))
    events = [event + b"\n\n" for event in data.split(b"\n\n") if event]
    check(fault, check_stream(streamed(fault, events), **expected(fault)))
    check(fault, check_stream(streamed(fault, [data[at : at + 1] for at in range(len(data))]), **expected(fault)))


@pytest.mark.parametrize("fault", FAULTS, ids=IDS)
def test_it_does_so_wherever_the_stream_is_cut(fault: Fault) -> None:
    data = stream_of(fault)
    without_ids = _no_ids(streamed(fault, [data]))
    for at in range(1 + len(fault.issue) % 5, len(data), 5):
        assert _no_ids(streamed(fault, [data[:at], data[at:]])) == without_ids, at


def _no_ids(answer: bytes) -> list[Any]:
    """The joined answer; ids that are ours are random."""
    choice = check_stream(answer, own_ids=False).only
    return [choice.content, choice.reasoning, choice.named_calls, choice.finish_reason]


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault.message], ids=lambda fault: fault.issue)
def test_a_faulty_whole_answer_comes_out_right(fault: Fault) -> None:
    reply = asked(fault).answers(completion(fault.message, fault.said))
    check(fault, check_whole(reply.body, **expected(fault)))


def test_a_call_that_lost_its_arguments_is_asked_for_again_where_they_are_checked() -> None:
    # vLLM #31501, #47901, SGLang #37634: `{}` does not fit a tool that needs more.
    made = Driven(Settings(mode="native", validate_arguments="retry"), BackendMemory())
    made.asks(**ASKED, stream=True)
    lost = stream_of(Fault(issue="", deltas=[calls(call("{}", "get_weather", id="1"))], due=[]))
    assert made.streams(lost) == b""
    again = made.take_next()
    assert again is not None
    asked_again = json.loads(again)
    assert asked_again["tools"] == TOOLS
    assert "'city' is a required property" in asked_again["messages"][-1]["content"]


def _no_call(content: str) -> bytes:
    """vLLM #53255: `required` got no call, and the reason says that it did."""
    return completion({"content": content, "tool_calls": []}, "tool_calls")


def test_required_without_a_call_is_asked_for_again_whatever_the_reason_says() -> None:
    # vLLM #53255.
    fault = Fault(issue="", deltas=[], due=[("get_weather", PARIS)], request={"tool_choice": "required"})
    made = asked(fault)
    made.on_response_start(200, JSON)
    assert made.whole(_no_call("Hello, I am fine.")) is None
    again = made.take_next()
    assert again is not None
    sent = json.loads(again)
    assert (sent["tool_choice"], sent["tools"]) == ("required", TOOLS)
    assert sent["messages"][-2] == {"role": "assistant", "content": "Hello, I am fine."}
    reply = made.answers(completion(calls(call(PARIS, "get_weather", None, "1")), "tool_calls"))
    check(fault, check_whole(reply.body, **expected(fault)))


@pytest.mark.parametrize("content", ["Hello, I am fine.", "", '[{"name": "nope", "parameters": {}}]'])
def test_no_answer_says_that_there_was_a_call_where_there_is_none(content: str) -> None:
    # vLLM #53255: after the last try it is an error; where no call has to come, the reason is `stop`.
    required = Fault(issue="", deltas=[], due=[], request={"tool_choice": "required"}, settings={"retries": 0})
    made = asked(required)
    made.on_response_start(200, JSON)
    with pytest.raises(ToolCallError) as caught:
        made.whole(_no_call(content))
    assert (caught.value.code, caught.value.status) == ("tool_choice_not_satisfied", 422)
    auto = Fault(issue="", deltas=[], due=[], content=content or None, reason="stop")
    reply = asked(auto).answers(_no_call(content))
    check(auto, check_whole(reply.body, **expected(auto)))
    assert "tool_calls" not in json.loads(reply.body)["choices"][0]["message"]
