"""Calls that a backend makes by itself in `mode=prompt`, as vLLM does for gpt-oss whatever was asked: read as ours."""

from __future__ import annotations

import logging
from typing import Any

import httpx
import pytest

from tests.exchange.test_modes import GOOD, HISTORIC, NativeBackend, answered, post
from tests.helpers.stream_rules import Choice, check_error, check_stream, check_whole, same_answer
from toolcall_middleware import ToolCallMiddleware

STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def own(arguments: Any = '{"x": 1}', name: str = "f", index: int = 0, **more: Any) -> dict[str, Any]:
    """A backend's own call, as an entry of `tool_calls`."""
    function = {"name": name, "arguments": arguments}
    return {"index": index, "id": f"chatcmpl-tool-{index}", "type": "function", "function": function, **more}


def calling(*calls: dict[str, Any], content: str | None = None, finish: str = "stop") -> NativeBackend:
    delta: dict[str, Any] = {"tool_calls": list(calls)}
    return NativeBackend(*([] if content is None else [{"content": content}]), delta, finish=finish)


def refusal(response: httpx.Response) -> Any:
    """The code of the error that the answer is, or ends in."""
    if response.status_code != 200:
        return check_error(response.content)["code"]
    return (check_stream(response.content, error=True).error or {})["code"]


async def ask(backend: Any, *, stream: bool, wanted: dict[str, Any] | None = None, **settings: Any) -> Choice:
    """The answer's only choice; the ids are ours."""
    made = answered(await post(ToolCallMiddleware(backend, **settings), stream=stream, **(wanted or {})))
    assert isinstance(made, Choice)
    return made


@STREAMS
@pytest.mark.parametrize("finish", ["stop", "tool_calls"])
async def test_it_is_a_call_with_our_id_and_the_true_reason(finish: str, stream: bool) -> None:
    app = ToolCallMiddleware(calling(own(), own('{"x": 2}', index=1), finish=finish))
    response = await post(app, stream=stream)
    choice = answered(response, tools={"f"})
    assert choice.named_calls == [("f", '{"x": 1}'), ("f", '{"x": 2}')]
    assert (choice.finish_reason, choice.content) == ("tool_calls", None)
    assert stream or response.headers["x-toolcall"].startswith("mode=prompt; format=json; calls=2")


@STREAMS
async def test_a_single_function_call_of_old_is_one_too(stream: bool) -> None:
    backend = NativeBackend({"function_call": {"name": "f", "arguments": '{"x": 1}'}}, finish="function_call")
    choice = await ask(backend, stream=stream)
    assert (choice.named_calls, choice.finish_reason) == ([("f", '{"x": 1}')], "tool_calls")


@STREAMS
@pytest.mark.parametrize("wish", ["required", {"type": "function", "function": {"name": "f"}}])
async def test_it_satisfies_required(wish: Any, stream: bool) -> None:
    backend = calling(own())
    choice = await ask(backend, stream=stream, wanted={"tool_choice": wish})
    assert choice.named_calls == [("f", '{"x": 1}')]
    assert len(backend.bodies) == 1


@STREAMS
@pytest.mark.parametrize("first", [True, False], ids=["own first", "text first"])
async def test_calls_in_the_text_and_own_ones_are_numbered_together(first: bool, stream: bool) -> None:
    text = {"content": '<tool_call>\n{"name": "f", "arguments": {"x": 7}}\n</tool_call>'}
    calls: dict[str, Any] = {"tool_calls": [own('{"x": 1}', index=0), own('{"x": 2}', index=1)]}
    backend = NativeBackend(*([calls, text] if first else [text, calls]))
    made = await ask(backend, stream=stream)
    assert sorted(call.parsed["x"] for call in made.calls) == [1, 2, 7]
    assert made.content is None
    assert made.finish_reason == "tool_calls"


@STREAMS
@pytest.mark.parametrize("policy", ["text", "drop", "forward", "error"])
async def test_a_tool_that_is_not_offered_is_what_the_setting_says(policy: str, stream: bool) -> None:
    app = ToolCallMiddleware(calling(own(name="nope")), unknown_tool=policy)
    response = await post(app, stream=stream)
    if policy == "error":
        assert check_error(response.content)["code"] == "unknown_tool_call"
        return
    choice = answered(response)
    assert [call.name for call in choice.calls] == (["nope"] if policy == "forward" else [])
    assert ("nope" in (choice.content or "")) is (policy == "text")
    assert choice.finish_reason == ("tool_calls" if policy == "forward" else "stop")


@STREAMS
@pytest.mark.parametrize(
    ("arguments", "settings", "code"),
    [
        ('{"x": "no"}', {"validate_arguments": "error"}, "invalid_tool_arguments"),
        ('{"x": 1,}', {"malformed_arguments": "error"}, "malformed_tool_arguments"),
        ('{"x": 1', {"validate_arguments": "error"}, "malformed_tool_arguments"),
        ('["x"]', {"malformed_arguments": "error"}, "malformed_tool_arguments"),
        ('{"x": "' + "a" * 100 + '"}', {"max_arguments_bytes": 50}, "limit_exceeded"),
        ("{}", {"allowlist": "g", "allowlist_mode": "enforce"}, "tool_not_allowed"),
    ],
    ids=["schema", "malformed", "cut", "no object", "size", "allowlist"],
)
async def test_no_policy_is_passed(arguments: str, settings: dict[str, Any], code: str, stream: bool) -> None:
    tool = {"type": "function", "function": {"name": "g"}}
    wanted = {"tools": [tool]} if "allowlist" in settings else {}
    app = ToolCallMiddleware(calling(own(arguments)), unknown_tool="forward", **settings)
    response = await post(app, stream=stream, **wanted)
    assert refusal(response) == code


@STREAMS
async def test_values_names_and_brackets_are_repaired(stream: bool) -> None:
    app = ToolCallMiddleware(calling(own('{"x": "3"'), own('{"x": 4}', "functions.f", index=1)))
    response = await post(app, stream=stream)
    assert answered(response, tools={"f"}).named_calls == [("f", '{"x": 3}'), ("f", '{"x": 4}')]
    assert stream or "; calls=2; renamed=1; repaired=1" in response.headers["x-toolcall"]


@STREAMS
async def test_there_are_no_more_than_the_most(stream: bool) -> None:
    calls = [own(index=at) for at in range(3)]
    assert len((await ask(calling(*calls), stream=stream, max_tool_calls=2)).calls) == 2
    assert len((await ask(calling(*calls), stream=stream, wanted={"parallel_tool_calls": False})).calls) == 1


@STREAMS
async def test_a_cut_call_is_told_as_cut_whatever_the_backend_says(stream: bool) -> None:
    choice = await ask(calling(own('{"x": "rm -rf /home/me/t')), stream=stream)
    assert (choice.finish_reason, choice.named_calls) == ("length", [("f", '{"x": "rm -rf /home/me/t')])


@STREAMS
async def test_it_is_cut_where_the_limit_of_tokens_was_reached(stream: bool) -> None:
    long = '{"x": 1, "y": "' + "word " * 40 + '"'
    choice = await ask(calling(own(long), finish="tool_calls"), stream=stream, wanted={"max_tokens": 40})
    assert choice.finish_reason == "length"


@STREAMS
async def test_choice_none_gets_no_call(stream: bool) -> None:
    choice = await ask(calling(own()), stream=stream, wanted={"tool_choice": "none"})
    assert (choice.calls, choice.finish_reason) == ([], "stop")
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [HISTORIC]}]
    choice = await ask(calling(own()), stream=stream, wanted={"tools": [], "messages": history})
    assert choice.named_calls == [("f", '{"x": 1}')]


@STREAMS
async def test_a_refused_one_is_asked_for_again(stream: bool) -> None:
    backend = calling(own('{"x": "no"}'))
    response = await post(ToolCallMiddleware(backend, validate_arguments="retry"), stream=stream)
    assert check_error(response.content)["code"] == "invalid_tool_arguments"
    assert len(backend.bodies) == 2
    assert "do not fit its schema" in backend.bodies[1]["messages"][-1]["content"]


@STREAMS
async def test_the_log_tells_it_as_every_call(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        await ask(calling(own('{"x": 1,}')), stream=stream)
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("call: ")]
    assert told == ["call: model=m mode=prompt format=json tool=f outcome=repaired path=arguments"]


async def test_an_answer_without_any_keeps_what_stands_beside() -> None:
    backend = NativeBackend({"content": "hi", "tool_calls": [], "function_call": None})
    whole = await post(ToolCallMiddleware(backend))
    message = whole.json()["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "hi", "tool_calls": [], "function_call": None, "refusal": None}
    streamed = await post(ToolCallMiddleware(backend), stream=True)
    assert b'"tool_calls":[]' in streamed.content


async def test_stream_and_whole_agree() -> None:
    backend = NativeBackend({"content": "Let me see."}, {"tool_calls": [own(), own('{"x": "2"}', index=1)]})
    app = ToolCallMiddleware(backend)
    whole, streamed = await post(app), await post(app, stream=True)
    same_answer(check_stream(streamed.content), check_whole(whole.content))


@pytest.mark.parametrize("reasoning", ["ignore", "parse"])
@pytest.mark.parametrize("finish", ["length", "stop", None])
async def test_no_call_follows_one_that_is_cut(reasoning: str, finish: str | None) -> None:
    half = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": '}}
    backend = NativeBackend({"tool_calls": [half]}, {"reasoning": GOOD}, finish=finish)
    response = await post(ToolCallMiddleware(backend, mode="native", reasoning=reasoning), stream=True)
    assert response.text.count('"name":"f"') == 1, response.text
    assert '"finish_reason":"length"' in response.text.replace(" ", "")


@pytest.mark.parametrize("reasoning", ["ignore", "parse"])
async def test_a_call_in_a_thought_follows_one_that_is_whole(reasoning: str) -> None:
    call = {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    backend = NativeBackend({"tool_calls": [call]}, {"reasoning": GOOD}, finish="length")
    response = await post(ToolCallMiddleware(backend, mode="native", reasoning=reasoning), stream=True)
    assert response.text.count('"name":"f"') == 2
