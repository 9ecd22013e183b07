"""Grammars of custom tools: a constraint where the call's syntax can hold such a text, a check, and a description."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.driven import Driven
from toolcall_middleware import Settings
from toolcall_middleware.apis.responses import ResponsesFace
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.exchange import Ask, Exchange, Request
from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall
from toolcall_middleware.upstream.backend_memory import BackendMemory

LINES = {"type": "grammar", "syntax": "lark", "definition": 'start: "begin" LF (/.+/ LF)+ "end"\n%import common.LF'}
CODE = {"type": "grammar", "syntax": "regex", "definition": "^[A-Z]{2}-[0-9]+$"}
QUOTED = {"type": "grammar", "syntax": "regex", "definition": 'say "[^"]+"'}
NOT_REGULAR = {"type": "grammar", "syntax": "lark", "definition": 'start: "(" start ")" | "x"'}
XML = ["qwen3_coder", "deepseek_v32", "minimax_m2", "kimi_k3"]


def body(form: dict[str, Any], **fields: Any) -> bytes:
    tools = [
        {"type": "custom", "name": "write", "description": "Writes.", "format": form},
        {"type": "function", "name": "read", "parameters": {"type": "object", "properties": {}}},
    ]
    return json.dumps({"model": "m", "input": "hi", "tools": tools, **fields}).encode()


def sent(form: dict[str, Any], *, choice: Any = "auto", **settings: Any) -> dict[str, Any]:
    """What the backend is asked with."""
    chat = ResponsesFace().request(body(form, tool_choice=choice), {})
    action = Exchange(Settings(**settings), BackendMemory(), always=True).receive(Request(chat.body))[0]
    assert isinstance(action, Ask), action
    made: dict[str, Any] = json.loads(action.body)
    told = "".join(character for character in json.dumps(made) if character != "\\")
    assert form["definition"].partition("\n")[0].replace("\\", "") in told
    assert "toolcall_grammar" not in json.dumps(made)
    return made


def held_text(asked: dict[str, Any]) -> dict[str, Any]:
    """The schema that the constraint has for the custom tool's text."""
    tags = asked["response_format"]["format"]["tags"]
    found: dict[str, Any] = next(tag for tag in tags if "write" in tag["begin"])
    text: dict[str, Any] = found["content"]["json_schema"]["properties"]["input"]
    return text


@pytest.mark.parametrize("format", XML)
@pytest.mark.parametrize("form", [LINES, CODE, QUOTED])
def test_a_syntax_that_writes_raw_text_is_held_to_any_grammar(format: str, form: dict[str, Any]) -> None:  # noqa: A002 - the setting's own name
    assert held_text(sent(form, format=format))["pattern"].startswith("^(")


@pytest.mark.parametrize(("form", "is_held"), [(CODE, True), (QUOTED, False), (LINES, False)])
def test_a_json_string_is_held_only_to_what_needs_no_escape(form: dict[str, Any], is_held: bool) -> None:
    assert ("pattern" in held_text(sent(form, format="hermes"))) == is_held
    asked = sent(form, format="json", choice={"type": "custom", "name": "write"}, constrain="response_format")
    assert ('"pattern"' in json.dumps(asked["response_format"])) == is_held


def test_a_grammar_that_is_no_pattern_stays_a_description() -> None:
    assert "response_format" not in sent(NOT_REGULAR, format="qwen3_coder")


@pytest.mark.parametrize("mode", ["prompt", "native"])
def test_neither_prompt_nor_tools_hold_the_pattern(mode: str) -> None:
    made = sent(CODE, format="hermes", mode=mode)
    assert '"pattern' not in json.dumps({**made, "response_format": None})


def test_nothing_is_asked_where_constraints_are_off() -> None:
    assert "response_format" not in sent(CODE, format="qwen3_coder", constrain="off")


def answered(form: dict[str, Any], text: str, *, stream: bool, face: str, **settings: Any) -> list[str]:
    """The texts of the calls that the client gets of a model that writes one. Raises ToolCallError as a host sends it.

    face: `responses`, or `chat` for a custom tool of a chat completion.
    """
    exchange = Driven(Settings(format="hermes", constrain="off", retries=0, **settings), BackendMemory())
    request = ResponsesFace().request(body(form, stream=stream), {}).body
    if face == "chat":
        inner = {key: value for key, value in form.items() if key != "type"}
        custom = {"name": "write", "format": {"type": "grammar", "grammar": inner}}
        fields = {"messages": [{"role": "user", "content": "hi"}], "tools": [{"type": "custom", "custom": custom}]}
        request = json.dumps({"model": "m", "stream": stream, **fields}).encode()
    assert exchange.on_request(request) is not None
    written = registry.get("hermes").render_calls([ToolCall("write", json.dumps({"input": text}))])
    head = {"id": "c", "created": 1, "model": "m"}
    if not stream:
        exchange.on_response_start(200, [(b"content-type", b"application/json")])
        message = {"role": "assistant", "content": written}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        reply = exchange.whole(json.dumps({**head, "object": "chat.completion", "choices": [choice]}).encode())
        assert reply is not None
        calls = json.loads(reply.body)["choices"][0]["message"].get("tool_calls") or []
        return [call["custom"]["input"] if "custom" in call else call["function"]["arguments"] for call in calls]
    exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": written}, None), ({}, "stop")]
    out = b""
    for delta, reason in deltas:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {**head, "object": "chat.completion.chunk", "choices": [choice]}
        out += exchange.feed(b"data: %b\n\n" % json.dumps(chunk).encode())
    out += exchange.feed(b"data: [DONE]\n\n") + exchange.finish()
    if b"invalid_tool_arguments" in out:
        raise ToolCallError("invalid_tool_arguments", out.decode())
    return [out.decode()]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("face", ["responses", "chat"])
@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        (CODE, "AB-12", "AB-12 "),
        (QUOTED, 'say "hi"', "say hi"),
        (LINES, "begin\none\ntwo\nend", "begin\nend"),
    ],
)
def test_a_finished_call_is_checked_where_validation_is_on(
    form: dict[str, Any], good: str, bad: str, face: str, *, stream: bool
) -> None:
    assert len(answered(form, good, stream=stream, face=face, validate_arguments="error")) == 1
    with pytest.raises(ToolCallError, match="does not match"):
        answered(form, bad, stream=stream, face=face, validate_arguments="error")
    assert len(answered(form, bad, stream=stream, face=face)) == 1


def test_a_client_cannot_break_the_check_by_a_grammar_of_its_own() -> None:
    function = {"name": "f", "parameters": {"type": "object", "properties": {"input": {"type": "string"}}}}
    for grammar in ("(", "a" * 9000, 7, "(a{1000}){1000}"):
        tools = [{"type": "function", "function": function, "toolcall_grammar": grammar}]
        chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": tools}
        exchange = Driven(Settings(format="qwen3_coder"), BackendMemory())
        made = exchange.on_request(json.dumps(chat).encode())
        assert made is not None
        assert b"response_format" not in made
