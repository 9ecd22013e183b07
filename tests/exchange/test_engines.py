"""What is learned of real engines' dialects: which constraints they take, ignore or refuse; whether they take tools.

And every recorded exchange, through the exchange in each mode.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers import engines
from tests.helpers.driven import Driven
from tests.helpers.engines import ARGUMENTS, NAMES, PROSE, Answered, Engine, ask, kind_of, recorded
from tests.helpers.stream_rules import check_error, check_stream, check_whole
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.exchange import State
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import FACT, BackendMemory, ToolSupport

PARAMETERS = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "The city whose weather is wanted, in English."},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "The weather in a city", "parameters": PARAMETERS}}
    for name in ("get_weather", "get_forecast", "get_history")
]
NAMED = {"type": "function", "function": {"name": "get_weather"}}
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def request(choice: Any = "auto", *, stream: bool = False, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Weather in Paris?"}]
    return {"model": "m", "messages": messages, "tools": TOOLS, "tool_choice": choice, "stream": stream, **more}


def called(answer: Answered, **expected: Any) -> list[tuple[str, Any]]:
    check = check_stream if answer.headers["content-type"].startswith("text/event-stream") else check_whole
    choice = check(answer.body, own_ids=False, same_head=False, role_once=False, **expected).only
    return [(call.name, call.parsed) for call in choice.calls]


def said(answer: Answered, **expected: Any) -> str | None:
    check = check_stream if answer.headers["content-type"].startswith("text/event-stream") else check_whole
    return check(answer.body, **expected).only.content


# -- constraints -----------------------------------------------------------------------------------------------------


@STREAMS
@pytest.mark.parametrize(
    ("make", "fmt", "kinds"),
    [
        (engines.vllm, "hermes", ["structural_tag"]),
        (engines.vllm, "json", ["response_format"]),
        (engines.vllm_hermes, "hermes", ["structural_tag"]),
        (engines.llama_server, "hermes", ["structural_tag", "response_format"]),
        (engines.llama_server, "json", ["response_format"]),
        (engines.llama_cpp_python, "hermes", ["structural_tag", "response_format", "llama_cpp"]),
        (engines.llama_cpp_python, "json", ["response_format", "llama_cpp"]),
    ],
)
def test_a_call_that_must_come_is_constrained_as_the_engine_can(
    make: Callable[[], Engine], fmt: str, kinds: list[str], stream: bool
) -> None:
    engine, memory = make(), BackendMemory()
    for choice in ("required", NAMED):
        asked = len(engine.bodies)
        answer = ask(engine, memory, request(choice, stream=stream), format=fmt)
        assert called(answer, must_call=True) == [("get_weather", ARGUMENTS)]
        # What was refused is not asked again; nothing is asked twice.
        assert [kind_of(body) for body in engine.bodies[asked:]] == (kinds if choice == "required" else kinds[-1:])
    assert not any("guided" in name for body in engine.bodies for name in body)


@STREAMS
def test_a_constraint_that_is_ignored_in_silence_is_noticed(stream: bool) -> None:
    engine, memory = engines.deaf(), BackendMemory()
    for kinds in (["structural_tag", "response_format"], ["llama_cpp", None], [None, None]):
        asked = len(engine.bodies)
        with pytest.raises(ToolCallError) as caught:
            ask(engine, memory, request("required", stream=stream), format="hermes")
        assert (caught.value.code, caught.value.status) == ("tool_choice_not_satisfied", 422)
        assert PROSE in caught.value.message
        assert [kind_of(body) for body in engine.bodies[asked:]] == kinds


def test_it_is_noticed_without_another_try_too() -> None:
    engine, memory = engines.deaf(), BackendMemory()
    for kind in ("structural_tag", "response_format", "llama_cpp", None):
        with pytest.raises(ToolCallError):
            ask(engine, memory, request("required"), format="hermes", retries=0)
        assert kind_of(engine.bodies[-1]) == kind


def test_an_answer_that_ran_out_of_tokens_says_nothing_of_the_constraint() -> None:
    memory = BackendMemory()
    for _ in range(2):
        exchange = Driven(Settings(format="json", retries=0), memory)
        body = exchange.on_request(json.dumps(request("required")).encode())
        assert body is not None
        assert kind_of(json.loads(body)) == "response_format"
        exchange.on_response_start(200, [(b"content-type", b"application/json")])
        choice = {"index": 0, "message": {"role": "assistant", "content": '{"tool'}, "finish_reason": "length"}
        with pytest.raises(ToolCallError):
            exchange.whole(json.dumps({"id": "c", "choices": [choice]}).encode())


def test_what_was_learned_fades_and_is_of_one_model() -> None:
    clock = Clock()
    engine, memory = engines.llama_server(), BackendMemory(clock)
    for now, model, kinds in (
        (0.0, "m", ["structural_tag", "response_format"]),
        (500.0, "m", ["response_format"]),
        (500.0, "other", ["structural_tag", "response_format"]),
        (700.0, "m", ["structural_tag", "response_format"]),
    ):
        clock.now = now
        asked = len(engine.bodies)
        ask(engine, memory, {**request("required"), "model": model}, format="hermes")
        assert [kind_of(body) for body in engine.bodies[asked:]] == kinds


@pytest.mark.parametrize("engine", NAMES)
def test_an_error_of_the_clients_own_is_asked_for_once(engine: str) -> None:
    row = next((row for case, row in recorded(engine).items() if case == "err_context_overflow_stream"), None)
    if row is None or row.status != 400:
        pytest.skip("this engine has no such error")
    made = Engine(engine, lambda _body: "err_context_overflow_stream", frozenset())
    answer = ask(made, BackendMemory(), request("required"), format="hermes")
    assert answer.status == 400
    assert "context" in check_error(answer.body)["message"]
    assert len(made.bodies) == 1


def test_a_server_that_breaks_without_a_word_is_asked_once_without_constraint() -> None:
    made = Engine("", lambda _body: None, frozenset())
    made.answer = lambda raw: (made.bodies.append(json.loads(raw)), (500, "text/plain", b"Internal Server Error"))[1]  # type: ignore[method-assign, func-returns-value]
    answer = ask(made, BackendMemory(), request("required"), format="hermes")
    assert answer.status == 500
    assert [kind_of(body) for body in made.bodies] == ["structural_tag", None]


@pytest.mark.parametrize("field", ["skip_special_tokens", "stream_options"])
def test_a_field_of_ours_that_is_refused_is_left_out_and_remembered(field: str) -> None:
    engine, memory = engines.deaf(), BackendMemory()
    inner = engine.answer
    error = {"error": {"message": f"Unrecognized request argument supplied: {field}", "code": None}}

    def answer(raw: bytes) -> tuple[int, str, bytes]:
        if field in json.loads(raw):
            engine.bodies.append(json.loads(raw))
            return 400, "application/json", json.dumps(error).encode()
        return inner(raw)

    engine.answer = answer  # type: ignore[method-assign]
    wanted = {"stream_options": {"include_usage": True}} if field == "stream_options" else {}
    for fields in ([True, False], [False]):
        asked = len(engine.bodies)
        ask(engine, memory, request(stream=True, **wanted), format="kimi_k2")
        assert [field in body for body in engine.bodies[asked:]] == fields


# -- mode=auto -------------------------------------------------------------------------------------------------------


@STREAMS
@pytest.mark.parametrize("choice", ["auto", "required", NAMED], ids=["auto", "required", "named"])
def test_tools_that_are_refused_go_by_prompt(choice: Any, stream: bool) -> None:
    engine, memory = engines.vllm(), BackendMemory()
    for with_tools in ([True, False], [False]):
        asked = len(engine.bodies)
        answer = ask(engine, memory, request(choice, stream=stream), mode="auto", format="hermes")
        assert answer.headers["x-toolcall"].startswith("mode=prompt; format=hermes")
        assert ["tools" in body for body in engine.bodies[asked:]] == with_tools
        if choice == "auto":
            assert said(answer) == PROSE
        else:
            assert called(answer) == [("get_weather", ARGUMENTS)]


@STREAMS
def test_a_backend_with_a_parser_stays_native_where_it_is_one(stream: bool) -> None:
    engine, memory = engines.vllm_hermes(), BackendMemory()
    for choice in ("required", NAMED):
        answer = ask(engine, memory, request(choice, stream=stream), mode="auto")
        assert answer.headers["x-toolcall"].startswith("mode=native; format=auto")
        assert called(answer) == [("get_weather", {"city": "Paris", "unit": "celsius"})]
    assert ["tools" in body for body in engine.bodies] == [True, True]
    # The recorded model writes bare JSON under `auto`, which that parser leaves in the text: read, and learned from.
    answer = ask(engine, memory, request(stream=stream), mode="auto")
    assert called(answer) == [("get_weather", {"city": "Paris", "unit": "celsius"})]
    assert answer.headers["x-toolcall"].startswith("mode=native")
    answer = ask(engine, memory, request(stream=stream), mode="auto")
    assert answer.headers["x-toolcall"].startswith("mode=prompt")
    assert ["tools" in body for body in engine.bodies] == [True, True, True, False]


@STREAMS
def test_an_answer_without_a_call_is_asked_for_by_prompt_while_nothing_shows_that_tools_reach_the_model(
    stream: bool,
) -> None:
    engine, memory = engines.llama_server(), BackendMemory()
    asking = request(stream=stream, **({"stream_options": {"include_usage": True}} if stream else {}))
    answer = ask(engine, memory, asking, mode="auto")
    assert said(answer, include_usage=stream) == PROSE
    assert answer.headers["x-toolcall"].startswith("mode=prompt")
    assert ["tools" in body for body in engine.bodies] == [True, False]
    assert b'"prompt_tokens":86,' in answer.body.replace(b" ", b"")  # of both tries
    ask(engine, memory, request(stream=stream), mode="auto")
    assert ["tools" in body for body in engine.bodies] == [True, False, False]


@STREAMS
@pytest.mark.parametrize("support", [ToolSupport.SHOWN, ToolSupport.CALLS])
def test_an_answer_without_a_call_proves_nothing(stream: bool, support: ToolSupport) -> None:
    engine, memory = engines.deaf(), BackendMemory()
    memory.note("m", FACT, value=support)
    for _ in range(3):
        answer = ask(engine, memory, request(stream=stream), mode="auto")
        assert answer.headers["x-toolcall"].startswith("mode=native")
        assert said(answer) == PROSE
    assert all("tools" in body for body in engine.bodies)
    assert not any("stream_options" in body for body in engine.bodies)


def test_a_call_that_the_backend_lost_is_asked_for_by_prompt() -> None:
    # vLLM #44326: finish_reason says that there was one.
    engine, memory = engines.deaf(), BackendMemory()
    choice = {"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "tool_calls"}
    inner = engine.answer

    def answer(raw: bytes) -> tuple[int, str, bytes]:
        made = inner(raw)
        lost = json.dumps({"id": "c", "created": 1, "model": "m", "object": "chat.completion", "choices": [choice]})
        return (200, "application/json", lost.encode()) if "tools" in engine.bodies[-1] else made

    engine.answer = answer  # type: ignore[method-assign]
    assert said(ask(engine, memory, request(), mode="auto")) == PROSE
    assert ["tools" in body for body in engine.bodies] == [True, False]


def test_what_is_learned_of_tools_fades() -> None:
    clock = Clock()
    engine, memory = engines.vllm(), BackendMemory(clock)
    for now, with_tools in ((0.0, [True, False]), (599.0, [False]), (1300.0, [True, False])):
        clock.now = now
        asked = len(engine.bodies)
        ask(engine, memory, request(), mode="auto")
        assert ["tools" in body for body in engine.bodies[asked:]] == with_tools


FORM = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"properties": {"n": {"type": "integer"}}}}}


@STREAMS
def test_a_clients_own_response_format_goes_by_prompt_where_tools_may_be_called(stream: bool) -> None:
    # A backend that is held to it cannot write its own syntax of calls.
    engine, memory = engines.deaf(), BackendMemory()
    memory.note("m", FACT, value=ToolSupport.SHOWN)
    ask(engine, memory, request(stream=stream, response_format=FORM), mode="auto")
    options = engine.bodies[0]["response_format"]["json_schema"]["schema"]["anyOf"]
    assert [sorted(option["properties"]) for option in options] == [["n"], ["tool_calls"]]
    for fields in ({"response_format": FORM, "tool_choice": "none"}, {}):
        ask(engine, memory, request(stream=stream) | fields, mode="auto")
        assert engine.bodies[-1].get("response_format") == fields.get("response_format")
        assert "tools" in engine.bodies[-1]


@pytest.mark.parametrize("mode", ["native", "auto"])
def test_it_is_no_matter_where_a_call_must_come(mode: str) -> None:
    engine = engines.vllm_hermes()
    answer = ask(engine, BackendMemory(), request("required", response_format=FORM), mode=mode)
    assert called(answer) == [("get_weather", {"city": "Paris", "unit": "celsius"})]
    assert "response_format" not in engine.bodies[0]
    ask(engine, BackendMemory(), request(response_format=FORM), mode="native")
    assert engine.bodies[-1]["response_format"] == FORM  # the operator's word: such a backend can do both


@STREAMS
def test_an_error_that_is_not_about_tools_is_the_clients(stream: bool) -> None:
    engine = Engine("vllm", lambda _body: "err_max_tokens_huge", frozenset())
    answer = ask(engine, BackendMemory(), request(stream=stream), mode="auto")
    assert (answer.status, len(engine.bodies)) == (400, 1)


# -- the recorded exchanges ------------------------------------------------------------------------------------------

PARIS = ("get_weather", {"city": "Paris", "unit": "celsius"})
CALLS: dict[tuple[str, str], list[tuple[str, Any]]] = {
    ("vllm_hermes", case): [PARIS]
    for case in (
        "history_tool_roles_with_tools", "tools_auto_explicit", "tools_choice_named_nonstream", "tools_nonstream",
        "tools_choice_named_stream", "tools_choice_required_nonstream", "tools_choice_required_stream", "tools_stream",
        "tools_parallel_stream", "tools_stream_usage", "tools_strict_true",
    )
} | {
    ("llama_cpp_python", "tools_choice_named_nonstream"): [("get_weather", {"city": "Paris"})],
    ("llama_cpp_python", "tools_choice_named_stream"): [("get_weather", {"city": "Paris"})],
}  # fmt: skip
WITH_TOOLS = [
    (engine, case)
    for engine in NAMES
    for case, row in recorded(engine).items()
    if isinstance(row.request, dict) and row.request.get("tools") and case != "err_tools_bad"
]


@pytest.mark.parametrize("mode", ["prompt", "native", "auto"])
@pytest.mark.parametrize(("engine", "case"), WITH_TOOLS)
def test_what_an_engine_answered_is_read(engine: str, case: str, mode: str) -> None:
    row = recorded(engine)[case]
    exchange = Driven(Settings(mode=mode), BackendMemory())
    assert exchange.on_request(json.dumps(row.request).encode()) is not None
    plan = exchange.on_response_start(row.status, [(b"content-type", row.content_type.encode())])
    data = row.response.encode()
    if row.status >= 400:
        reply = exchange.whole(data)
        if mode == "auto" or (mode == "prompt" and row.request.get("tool_choice", "auto") not in ("auto", "none")):
            # By prompt; or without the constraint, which a server that fails for another reason may have refused.
            again = exchange.take_next()
            assert reply is None or again is None
        else:
            assert reply is not None
            assert check_error(reply.body)["message"] in json.loads(row.response)["error"]["message"]
        return
    body = b""
    for at in range(0, len(data), 7):
        body += exchange.feed(data[at : at + 7])
        plan = State.STREAMING if exchange.state is State.STREAMING else plan
        if exchange.stopped:
            break
    body += exchange.finish()
    due = CALLS.get((engine, case), [])
    must_call = row.request.get("tool_choice", "auto") not in ("auto", "none")
    if exchange.take_next() is not None:
        # Asked again: no call came although one must, or the tools were not in the prompt.
        assert body == b""
        assert must_call or mode == "auto"
        assert not due or mode == "prompt"
        return
    check = check_stream if plan is State.STREAMING else check_whole
    usage = bool((row.request.get("stream_options") or {}).get("include_usage"))
    more = {"include_usage": usage} if plan is State.STREAMING else {}
    answer = check(body, own_ids=False, same_head=False, role_once=False, **more)
    assert [(call.name, call.parsed) for call in answer.only.calls] == due
    assert answer.only.finish_reason in ({"tool_calls"} if due else {"stop", "length"})
    if usage:
        assert answer.usage is not None
        assert answer.usage["completion_tokens"] > 0


@pytest.mark.parametrize("mode", ["prompt", "native", "auto"])
@pytest.mark.parametrize("engine", NAMES)
def test_exchanges_without_tools_are_left_alone(engine: str, mode: str) -> None:
    seen = 0
    for case, row in recorded(engine).items():
        if not isinstance(row.request, dict) or row.request.get("tools") or case.startswith(("err_", "history_tool")):
            continue
        seen += 1
        exchange = Driven(Settings(mode=mode), BackendMemory())
        raw = json.dumps(row.request).encode()
        body = exchange.on_request(raw)
        if body is None:
            continue
        assert body == raw, case  # usage is asked for: the bytes pass, and a chunk is added where the backend gave none
        data = row.response.encode()
        plan = exchange.on_response_start(row.status, [(b"content-type", row.content_type.encode())])
        if plan is State.TAPPING:
            out = exchange.feed(data) + exchange.finish()
            assert out.replace(b"data: [DONE]\n\n", b"").startswith(data.partition(b"data: [DONE]")[0]), case
    assert seen > 8
