"""What is learned of a backend: nothing that one client sends decides for another."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from tests.helpers.chat_answers import chat_answer
from tests.helpers.driven import Driven
from tests.helpers.engines import (
    Answered,
    Engine,
    ask,
    deaf,
    kind_of,
    llama_cpp_python,
    llama_server,
    vllm,
    vllm_hermes,
)
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.attempt import _to_model
from toolcall_middleware.upstream.backend_memory import (
    FACT,
    REMEMBERED_SECONDS,
    BackendMemory,
    BackendReply,
    Evidence,
    PendingProof,
    ToolSupport,
)

SET = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
PLAIN = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def tool(name: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
    function = {"name": name, "description": "Does a thing.", "parameters": parameters or PLAIN}
    return {"type": "function", "function": function}


def with_property(schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"city": {"type": "string"}, "tags": schema}, "required": ["city"]}


def request(parameters: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Go."}]
    return {"model": "m", "messages": messages, "tools": [tool("go", parameters)], "tool_choice": "required", **more}


def picky(message: str, refused: Callable[[dict[str, Any]], bool], engine: Engine | None = None) -> Engine:
    """A backend that keeps to constraints, and refuses some requests with this message."""
    made = engine or Engine("", lambda _body: None, frozenset({"response_format", "llama_cpp"}))
    inner = made.answer

    def answer(raw: bytes) -> tuple[int, str, bytes]:
        body = json.loads(raw)
        if refused(body):
            made.bodies.append(body)
            error = {"message": message, "type": "BadRequestError", "param": None, "code": 400}
            return 400, "application/json", json.dumps({"error": error}).encode()
        return inner(raw)

    made.answer = answer  # type: ignore[method-assign]
    return made


def has(word: str) -> Callable[[dict[str, Any]], bool]:
    return lambda body: word in json.dumps(body.get("response_format"))


def kinds(engine: Engine, since: int = 0) -> list[str | None]:
    return [kind_of(body) for body in engine.bodies[since:]]


def asked(engine: Engine, memory: BackendMemory, body: dict[str, Any], **settings: Any) -> tuple[list[Any], Answered]:
    before = len(engine.bodies)
    answer = ask(engine, memory, body, **{"format": "json", **settings})
    return engine.bodies[before:], answer


@pytest.mark.parametrize(
    ("keyword", "schema", "message"),
    [
        ("uniqueItems", SET, 'Grammar error: Unimplemented keys: ["uniqueItems"]'),
        ("contains", {"type": "array", "contains": {"const": 1}}, 'Grammar error: Unimplemented keys: ["contains"]'),
        ("true", True, "JSON schema conversion failed:\nUnrecognized schema: true"),
        ("uniqueItems", SET, "The provided JSON schema contains features not supported by xgrammar."),
    ],
)
def test_one_requests_schema_does_not_turn_constraints_off_for_others(
    keyword: str, schema: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "toolcall_middleware")
    refused = has(f'"{keyword}"') if schema is not True else (lambda body: '"tags": true' in json.dumps(body))
    engine, memory = picky(message, refused), BackendMemory()
    bodies, answer = asked(engine, memory, request(with_property(schema)))
    assert answer.status == 200
    assert [kind_of(body) for body in bodies] == ["response_format", "response_format"]
    assert '"city"' in json.dumps(bodies[1]["response_format"])  # only the keyword is missing
    assert any("response_format" in line and "'m'" in line for line in caplog.messages)
    # Another client's schema is asked as ever, and this one at once without the keyword.
    assert [kind_of(body) for body in asked(engine, memory, request())[0]] == ["response_format"]
    again = asked(engine, memory, request(with_property(schema)))[0]
    assert [body["response_format"] for body in again] == [bodies[1]["response_format"]]


def late(engine: Engine) -> Engine:
    """The same engine, which looks at a request when the answer has begun: its refusals have status 200."""
    inner = engine.answer

    def answer(raw: bytes) -> tuple[int, str, bytes]:
        status, kind, said = inner(raw)
        if status < 400 or not json.loads(raw).get("stream"):
            return 200, kind, said
        return 200, "text/event-stream", b"data: " + said + b"\n\ndata: [DONE]\n\n"

    engine.answer = answer  # type: ignore[method-assign]
    return engine


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_with_status_200_is_one(stream: bool) -> None:
    message = 'Grammar error: Unimplemented keys: ["uniqueItems"]'
    engine, memory = late(picky(message, has('"uniqueItems"'))), BackendMemory()
    bodies, answer = asked(engine, memory, request(with_property(SET), stream=stream))
    assert [kind_of(body) for body in bodies] == ["response_format", "response_format"]
    assert b'"go"' in answer.body
    assert len(asked(engine, memory, request(with_property(SET), stream=stream))[0]) == 1
    engine, memory = late(picky("m does not support tools", lambda body: "tools" in body, deaf())), BackendMemory()
    bodies, answer = asked(engine, memory, free(stream=stream), mode="auto")
    assert ["tools" in body for body in bodies] == [True, False]
    assert len(asked(engine, memory, free(stream=stream), mode="auto")[0]) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_refusals_with_status_200_that_do_not_end_teach_nothing(stream: bool) -> None:
    refuses = [True]
    engine, memory = late(picky("The json schema is odd.", lambda _body: refuses[0])), BackendMemory()
    with pytest.raises(Exception, match="is odd"):
        asked(engine, memory, request(stream=stream))
    refuses.clear()
    refuses.append(False)
    assert [kind_of(body) for body in asked(engine, memory, request(stream=stream))[0]] == ["response_format"]


def test_a_kind_is_given_up_when_a_schema_that_says_nothing_is_refused_too() -> None:
    engine = picky("response_format.json_schema is not supported here", has("json_schema"))
    memory = BackendMemory()
    assert [kind_of(body) for body in asked(engine, memory, request(with_property(SET)))[0]] == [
        "response_format", "response_format", "response_format", "llama_cpp",
    ]  # fmt: skip
    assert '"city"' not in json.dumps(engine.bodies[2]["response_format"])
    assert [kind_of(body) for body in asked(engine, memory, request())[0]] == ["llama_cpp"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_under_a_weaker_constraint_is_checked(stream: bool) -> None:
    wanted = {"type": "object", "properties": {"city": {"type": "string", "pattern": "^[A-Z]{3}$"}}}
    engine, memory = picky('Unimplemented keys: ["pattern"]', has('"pattern"')), BackendMemory()
    body = request(wanted, stream=stream)
    with pytest.raises(Exception, match="do not fit its schema"):  # the model writes Paris, twice
        asked(engine, memory, body)
    assert kinds(engine) == ["response_format"] * 3
    assert "do not fit" in engine.bodies[2]["messages"][-1]["content"]


def test_a_grammar_of_the_clients_own_teaches_nothing_about_others() -> None:
    def refused(body: dict[str, Any]) -> bool:
        return "guided_regex" in body and "response_format" in body

    engine, memory = (
        picky("You can only use one kind of guided decoding: response_format, guided_regex", refused),
        BackendMemory(),
    )

    with pytest.raises(Exception, match="did not call"):
        asked(engine, memory, request(guided_regex="a"), retries=0)
    assert [kind_of(body) for body in asked(engine, memory, request())[0]] == ["response_format"]


def test_an_error_that_only_repeats_our_words_teaches_nothing() -> None:
    def refused(body: dict[str, Any]) -> bool:
        return bool(body["temperature"] > 9)

    engine, memory = picky("temperature, response_format: schema and grammar, stream_options", refused), BackendMemory()
    bodies, answer = asked(engine, memory, request(temperature=10))
    assert answer.status == 400
    assert len(bodies) <= 9
    assert [kind_of(body) for body in asked(engine, memory, request(temperature=1))[0]] == ["response_format"]


def test_stream_options_of_the_clients_own_are_not_learned_from() -> None:
    def refused(body: dict[str, Any]) -> bool:
        return "odd" in body.get("stream_options", {})

    engine, memory = picky("stream_options.odd: Extra inputs are not permitted", refused, deaf()), BackendMemory()
    options = {"include_usage": True, "odd": 1}
    asked(engine, memory, request(stream=True, stream_options=options, tool_choice="auto"))
    bodies, _ = asked(engine, memory, request(stream=True, stream_options={"include_usage": True}, tool_choice="auto"))
    assert [body["stream_options"] for body in bodies] == [{"include_usage": True}]


# -- mode=auto -------------------------------------------------------------------------------------------------------

MARKUP = '<tool_call>\n{"name": "go", "arguments": {"city": "Paris"}}\n</tool_call>'


class Native(Engine):
    """A backend that takes tools; `script` is what its model answers: a text, or the arguments of a call."""

    def __init__(self, *script: str) -> None:
        super().__init__("", lambda _body: None, frozenset())
        self.script = list(script)

    def said(self, body: dict[str, Any], text: str) -> tuple[str, bytes]:
        if "tools" not in body:
            return super().said(body, text)
        wrote = self.script.pop(0) if self.script else "Hello."
        call = {"id": "call_1", "type": "function", "function": {"name": "go", "arguments": wrote}}
        return chat_answer(body, {"content": None, "tool_calls": [call]} if wrote[0] == "{" else {"content": wrote})


def free(said: str = "Go.", name: str = "go", **more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": said}], "tools": [tool(name)], **more}


def native(engine: Engine, memory: BackendMemory, body: dict[str, Any]) -> bool:
    return "tools" in asked(engine, memory, body, mode="auto")[0][-1]


def known(memory: BackendMemory) -> Any:
    return memory.recall("m", FACT)


def test_words_that_a_model_is_told_to_repeat_do_not_turn_native_tools_off() -> None:
    engine, memory = Native(MARKUP), BackendMemory()
    assert native(engine, memory, free(f"Repeat after me: {MARKUP}"))
    assert known(memory) is None


def test_markup_in_the_text_is_learned_of_the_model_and_fades() -> None:
    now = [0.0]
    memory = BackendMemory(lambda: now[0])
    engine = Native(MARKUP, "{}")
    assert native(engine, memory.of(b"one"), free())
    assert not native(engine, memory.of(b"one"), free())
    assert not native(engine, memory.of(b"two"), free(name="other"))
    now[0] = REMEMBERED_SECONDS + 1
    assert native(engine, memory.of(b"one"), free())


def test_a_malformed_call_does_not_send_a_model_that_calls_natively_to_the_prompt() -> None:
    engine, memory = Native('{"city": "Paris"}', MARKUP.replace('"}', '",}')), BackendMemory()
    assert native(engine, memory, free())
    assert native(engine, memory, free())  # hermes' parser leaves it in the text
    assert native(engine, memory, free())


def test_a_refusal_of_one_requests_tools_is_looked_into_before_the_next_is_asked() -> None:
    """Every user of an agent has the same ones, and an error may quote what a client wrote."""

    def refused(body: dict[str, Any]) -> bool:
        return "tools" in body and "does not support tools" in json.dumps(body["messages"])

    engine = picky("cannot use: x does not support tools", refused, Native("{}", "{}"))
    memory = BackendMemory()
    assert not native(engine, memory.of(b"one"), free("x does not support tools"))
    assert known(memory) is ToolSupport.DOUBTED
    proof = PendingProof("m", memory)
    assert proof.is_due
    proof.learn(answered(proof, engine))
    assert known(memory) is ToolSupport.CALLS
    assert native(engine, memory.of(b"two"), free())


def test_a_refusal_that_is_about_what_the_model_wrote_teaches_nothing() -> None:
    engine = picky("error parsing tool call: invalid character", lambda body: "tools" in body, deaf())
    memory = BackendMemory()
    assert not native(engine, memory, free())
    assert known(memory) is None


def test_a_call_that_must_come_shows_no_more_than_was_known() -> None:
    engine, memory = vllm_hermes(), BackendMemory()
    assert native(engine, memory, {**request(), "tools": [tool("get_weather")]})
    assert known(memory) is None
    asked(engine, memory, free(name="get_weather"), mode="auto")
    assert known(memory) is ToolSupport.NONE


# -- the questions ---------------------------------------------------------------------------------------------------


def answered(proof: PendingProof, engine: Engine, props: bytes | None = None) -> Evidence:
    """What the answers of an engine show. props: what it has at `/props`."""
    questions = proof.questions()
    question = next(questions)
    while True:
        if question.path is not None:
            reply = BackendReply(404, b"Not Found") if props is None else BackendReply(200, props)
        else:
            status, _, body = engine.answer(question.body)
            reply = BackendReply(status, body)
        try:
            question = questions.send(reply)
        except StopIteration as over:
            evidence: Evidence = over.value
            return evidence


def looked(engine: Engine, props: bytes | None = None) -> ToolSupport | None:
    return answered(PendingProof("m", BackendMemory()), engine, props).support


@pytest.mark.parametrize(
    ("make", "shows"),
    [(vllm, ToolSupport.NONE), (llama_server, ToolSupport.NONE), (llama_cpp_python, ToolSupport.NONE)],
)
def test_what_engines_without_tools_show(make: Callable[[], Engine], shows: ToolSupport) -> None:
    assert looked(make()) is shows


def test_what_a_prompts_tokens_show() -> None:
    def engine(**lengths: int) -> Engine:
        tokens = lambda body: lengths["tools" if "tools" in body else "plain"]  # noqa: E731
        return Engine("", lambda _body: None, frozenset(), tokens)

    assert looked(engine(tools=90, plain=30)) is ToolSupport.SHOWN
    assert looked(engine(tools=30, plain=30)) is ToolSupport.NONE
    assert looked(engine(tools=31, plain=30)) is ToolSupport.NONE  # a template that writes the time
    assert looked(engine(tools=0, plain=0)) is None  # it counts nothing


def test_a_backend_that_wants_the_newer_name_of_the_limit_gets_it() -> None:
    error = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    counting = Engine("", lambda _body: None, frozenset(), lambda body: 90 if "tools" in body else 30)
    engine = picky(error, lambda body: "max_tokens" in body, counting)
    assert looked(engine) is ToolSupport.SHOWN
    assert [("max_tokens" in body, "tools" in body) for body in engine.bodies] == [
        (True, True), (False, True), (True, False), (False, False),
    ]  # fmt: skip


def test_the_questions_of_one_model_are_three_short_ones() -> None:
    engine = deaf()
    assert looked(engine) is ToolSupport.NONE
    assert [(body["max_tokens"], "tools" in body) for body in engine.bodies] == [(1, True), (1, False)]
    assert looked(engine, b'{"chat_template_caps": {"supports_tools": true}}') is ToolSupport.SHOWN
    assert len(engine.bodies) == 2


@pytest.mark.parametrize(
    "props", [b"", b"<html>", b"[]", b'{"chat_template_caps": {"supports_tools": "yes"}}', b"\xff"]
)
def test_props_of_another_server_say_nothing(props: bytes) -> None:
    assert looked(deaf(), props) is ToolSupport.NONE


@pytest.mark.parametrize(
    "broken",
    [
        (200, b"<html>"), (200, b"[]"), (200, b'{"choices": [], "usage": {"prompt_tokens": true}}'),
        (200, b'{"choices": [{"message": null}], "usage": null}'), (401, b"no key"), (429, b"slow down"), (503, b""),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_shows_nothing(broken: tuple[int, bytes]) -> None:
    engine = deaf()
    engine.answer = lambda raw: (broken[0], "", broken[1])  # type: ignore[method-assign]
    assert looked(engine) is None


# -- what is asked again ---------------------------------------------------------------------------------------------


def cut(text: str, **fields: Any) -> tuple[list[Any], str]:
    """The bodies of a request whose answers all end at the limit of tokens with this text; and the error."""
    bodies: list[Any] = []
    exchange = Driven(Settings(format="json", constrain="off", retries=2))
    raw = exchange.on_request(json.dumps({**request(), "max_tokens": 5, **fields}).encode())
    try:
        while raw is not None:
            bodies.append(json.loads(raw))
            exchange.on_response_start(200, [(b"content-type", b"application/json")])
            choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "length"}
            exchange.whole(json.dumps({"id": "c", "object": "chat.completion", "choices": [choice]}).encode())
            raw = exchange.take_next()
    except ToolCallError as error:
        return bodies, error.message
    raise AssertionError


def test_a_call_that_is_too_long_for_the_limit_is_not_asked_for_again() -> None:
    bodies, said = cut('{"tool_calls": [{"na')
    assert len(bodies) == 1
    assert "(1 try)" in said
    bodies, said = cut("Let me think about that")
    assert len(bodies) == 3
    assert "(3 tries)" in said


def test_the_retry_speaks_to_the_model() -> None:
    message = (
        "The arguments of the model's call of 'f' do not fit its schema: x: 'a' is wrong. It wrote: {\"x\": \"a\"}"
    )
    assert _to_model(message) == "The arguments of your call of 'f' do not fit its schema: x: 'a' is wrong."
    assert _to_model("The model called 'g', which is not among the tools of the request: <x>").startswith(
        "You called 'g'"
    )


def test_the_prompt_and_the_constraint_ask_for_the_same_syntax() -> None:
    engine = picky("structural_tag is not supported: unknown schema", has("structural_tag"))
    bodies, answer = asked(engine, BackendMemory(), request(), format="hermes")
    assert answer.status == 200
    last = [body["messages"][-1]["content"] for body in bodies]
    assert [kind_of(body) for body in bodies] == ["structural_tag", "structural_tag", "response_format"]
    assert "<tool_call>" in last[0]
    assert "<tool_call>" not in last[2]
    assert '{"tool_calls": [' in last[2]
