"""A Messages request as a chat completion."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tests.apis.fed import MessagesFace
from toolcall_middleware.apis.face import Face
from toolcall_middleware.errors import ToolCallError

from .chat import READ, body, chat_of, messages_of, recorded
from .received import error_of

USER = {"role": "user", "content": "hi"}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}


def refused(**fields: Any) -> ToolCallError:
    with pytest.raises(ToolCallError) as caught:
        MessagesFace().request(body(**fields))
    assert caught.value.status == 400
    return caught.value


def use(call_id: str = "toolu_1", name: str = "Read", **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def result(call_id: str = "toolu_1", **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, **fields}


USED = {"id": "toolu_1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}


def after_call(*blocks: dict[str, Any]) -> list[dict[str, Any]]:
    """The chat messages behind a call."""
    return messages_of(USER, {"role": "assistant", "content": [use()]}, {"role": "user", "content": list(blocks)})[2:]


def test_it_is_a_face() -> None:
    face: Face = MessagesFace()
    assert face.api == "messages"


def test_a_plain_request() -> None:
    made = MessagesFace().request(body(temperature=0.5, top_p=0.9, top_k=40, stop_sequences=["END", ""], stream=True))
    assert made.stream
    assert json.loads(made.body) == {
        "model": "m",
        "max_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "stop": ["END"],
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert MessagesFace().settings["reasoning_field"] == "reasoning"
    assert made.dropped_tools == ()


def test_what_chat_has_no_word_for_is_left_out() -> None:
    chat = chat_of(
        metadata={"user_id": "u"},
        service_tier="auto",
        context_management={"edits": []},
        cache_control={"type": "ephemeral"},
        container=None,
        inference_geo="eu",
        speed="fast",
        diagnostics={},
        mcp_servers=[],
        thinking={"type": "adaptive"},
        output_config={"effort": "high"},
        thread=None,
        unheard_of=[1],
        tools=[],
    )
    assert chat.keys() == {"model", "max_tokens", "messages"}


def test_our_own_fields_pass() -> None:
    chat = chat_of(toolcall={"format": "hermes"}, request_options={"validate_tool_arguments": True})
    assert chat["toolcall"] == {"format": "hermes"}
    assert chat["request_options"] == {"validate_tool_arguments": True}


# -- system --------------------------------------------------------------------------------------------------------


def test_system_text_and_blocks() -> None:
    assert chat_of(system="Be kind.")["messages"][0] == {"role": "system", "content": "Be kind."}
    blocks = [
        {"type": "text", "text": "One.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Two."},
    ]
    assert chat_of(system=blocks)["messages"][0] == {"role": "system", "content": "One.\n\nTwo."}
    assert chat_of(system=[])["messages"] == [USER]
    assert chat_of(system="")["messages"] == [USER]


def test_the_billing_line_is_left_out_and_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    line = "x-anthropic-billing-header: cc_version=2.1.330.38d; cc_entrypoint=sdk-cli;"
    with caplog.at_level(logging.INFO, "toolcall_middleware"):
        chat = chat_of(system=[{"type": "text", "text": line}, {"type": "text", "text": "You are an agent."}])
    assert chat["messages"][0]["content"] == "You are an agent."
    assert "claude-code-billing" in caplog.text
    assert chat_of(system=f"{line}\nYou are.")["messages"][0]["content"] == "You are."
    quoted = f"Never write {line}"
    assert chat_of(system=quoted)["messages"][0]["content"] == quoted


def test_prompts_that_differ_in_the_billing_line_only_are_the_same() -> None:
    body = recorded("claude_code-01")
    assert b"330.38d" in body
    other = body.replace(b"330.38d", b"330.f86")
    assert MessagesFace().request(body).body == MessagesFace().request(other).body


def test_a_date_that_stands_first_goes_to_the_end() -> None:
    chat = chat_of(system="Today's date is 2026-11-22.\nYou are an agent.")
    assert chat["messages"][0]["content"] == "You are an agent.\n\nToday's date is 2026-11-22."
    inside = "You are an agent.\nToday's date is 2026-11-22."
    assert chat_of(system=inside)["messages"][0]["content"] == inside


# -- messages ------------------------------------------------------------------------------------------------------


def text(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def by(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "content": list(blocks)}


def document(source: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, **fields}


WORDS = {"type": "text", "media_type": "text/plain", "data": "D"}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBE"}
SEEN = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}
HISTORIES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    "system messages keep their place": (
        [USER, {"role": "system", "content": "Env."}, by("system", text("B."))],
        [USER, {"role": "system", "content": "Env."}, {"role": "system", "content": "B."}],
    ),
    "neighbours of one role are one turn": (
        [{"role": "user", "content": "a"}, by("user", text("b"), text("c")), {"role": "assistant", "content": "d"},
         by("assistant", text(""), text("e"))],
        [{"role": "user", "content": "a\n\nb\n\nc"}, {"role": "assistant", "content": "d\n\ne"}],
    ),
    "images and documents are parts": (
        [by("user", PNG, {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}},
            document(WORDS, title="T", context="C"), document(PDF),
            document({"type": "content", "content": [text("I"), PNG]}),
            document({"type": "url", "url": "http://x/z.pdf"}))],
        [by("user", SEEN, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}, text("T\nC"), text("D"),
            {"type": "file", "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,JVBE"}},
            text("I"), SEEN, text("(a document at http://x/z.pdf)"))],
    ),
    "documents of text are text": ([by("user", document(WORDS), text("q"))], [{"role": "user", "content": "D\n\nq"}]),
    "a search result is text": (
        [by("user", {"type": "search_result", "source": "http://x", "title": "T", "content": [text("found")]})],
        [{"role": "user", "content": "T\nhttp://x\nfound"}],
    ),
    "text after a call stays apart from text before it": (
        [USER, by("assistant", text("a"), text("b"), use(), text("c"))],
        [USER, {"role": "assistant", "content": "ab\nc", "tool_calls": [USED]}],
    ),
    "calls alone have no content": (
        [USER, by("assistant", use())], [USER, {"role": "assistant", "content": None, "tool_calls": [USED]}]
    ),
    "thinking is reasoning": (
        [USER, by("assistant", {"type": "thinking", "thinking": "hm", "signature": "EqMB"},
                  {"type": "redacted_thinking", "data": "xyz"},
                  {"type": "thinking", "thinking": "", "signature": "foreign"}, text("a"),
                  {"type": "thinking", "thinking": "more", "signature": ""})],
        [USER, {"role": "assistant", "content": "a", "reasoning_content": "hm\n\nmore"}],
    ),
    "blocks of foreign histories are left out": (
        [by("user", {"type": "mcp_tool_result", "tool_use_id": "x", "content": []}, text("q")),
         by("assistant", text("a"),
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, text("b"),
            {"type": "compaction", "content": " c"})],
        [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a\nb c"}],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_messages_are_those_of_a_chat(name: str) -> None:
    messages, expected = HISTORIES[name]
    assert messages_of(*messages) == expected


def test_calls_keep_their_ids_and_have_their_arguments_as_models_write_them() -> None:
    raw = (
        b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"q"},{"role":"assistant","content":'
        b'[{"type":"text","text":"Let me."},{"type":"tool_use","id":"toolu_1","name":"Read","input":'
        b'{"b": 1.0, "a":"\\u00e9" }},{"type":"tool_use","id":"call_2","name":"Read"}]}]}'
    )
    said = chat_of(raw)["messages"][1]
    assert said == {
        "role": "assistant",
        "content": "Let me.",
        "tool_calls": [
            {
                "id": "toolu_1",
                "type": "function",
                "function": {"name": "Read", "arguments": '{"b": 1.0, "a": "é"}'},
            },
            {"id": "call_2", "type": "function", "function": {"name": "Read", "arguments": "{}"}},
        ],
    }


@pytest.mark.parametrize(
    ("fields", "content"),
    [
        ({"content": "text"}, "text"),
        ({}, ""),
        ({"content": None}, ""),
        ({"content": []}, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        (
            {"content": [{"type": "text", "text": "a"}, PNG]},
            [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}],
        ),
    ],
)
def test_results(fields: dict[str, Any], content: Any) -> None:
    assert after_call(result(**fields)) == [{"role": "tool", "tool_call_id": "toolu_1", "content": content}]


def test_a_failed_call_says_so() -> None:
    assert after_call(result(content="no", is_error=True)) == [
        {"role": "tool", "tool_call_id": "toolu_1", "content": "no", "is_error": True}
    ]
    assert "is_error" not in after_call(result(content="yes", is_error=False))[0]


def test_results_come_before_what_else_the_user_says() -> None:
    said = after_call({"type": "text", "text": "now"}, result(content="r"), {"type": "text", "text": "go"})
    assert said == [
        {"role": "tool", "tool_call_id": "toolu_1", "content": "r"},
        {"role": "user", "content": "now\n\ngo"},
    ]


@pytest.mark.parametrize("signature", ["toolcall-v1.", "toolcall-v1.!!!", "toolcall-v1.4pyT4py", "", None, 7])
def test_signatures_that_carry_nothing_say_nothing(signature: Any) -> None:
    block = {"type": "thinking", "thinking": "", "signature": signature}
    assert "reasoning_content" not in messages_of(USER, {"role": "assistant", "content": [block]})[1]


SERVER_RESULTS: list[tuple[str, Any, str]] = [
    ("web_search_tool_result",
     [{"type": "web_search_result", "title": "T", "url": "https://a.b", "encrypted_content": "x", "page_age": None}],
     "T\nhttps://a.b"),
    ("web_search_tool_result", {"type": "web_search_tool_result_error", "error_code": "max_uses_exceeded"},
     "max_uses_exceeded"),
    ("web_fetch_tool_result",
     {"type": "web_fetch_result", "url": "https://a.b", "retrieved_at": "now", "content": {
         "type": "document", "title": "T", "source": {"type": "text", "media_type": "text/plain", "data": "words"}}},
     "https://a.b\nT\nwords"),
    ("web_fetch_tool_result",
     {"type": "web_fetch_result", "url": "https://a.b", "content": {
         "type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}},
     "https://a.b"),
    ("code_execution_tool_result",
     {"type": "code_execution_result", "stdout": "1\n", "stderr": "", "return_code": 0, "content": []}, "1\n"),
    ("bash_code_execution_tool_result",
     {"type": "bash_code_execution_result", "stdout": "o", "stderr": "e", "return_code": 2,
      "content": [{"type": "bash_code_execution_output", "file_id": "f"}]}, "o\ne\n(exit code 2)"),
    ("text_editor_code_execution_tool_result",
     {"type": "text_editor_code_execution_view_result", "content": "def f", "file_type": "text"}, "def f"),
    ("text_editor_code_execution_tool_result",
     {"type": "text_editor_code_execution_str_replace_result", "lines": ["-a", "+b"], "new_lines": 1}, "-a\n+b"),
    ("tool_search_tool_result",
     {"type": "tool_search_tool_search_result", "tool_references": [{"type": "tool_reference", "tool_name": "Read"}]},
     "Read"),
    ("mcp_tool_result", "said", "said"),
    ("mcp_tool_result", [{"type": "text", "text": "said"}], "said"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "content", "text"), SERVER_RESULTS)
def test_what_a_server_found_is_a_call_with_its_result(kind: str, content: Any, text: str) -> None:
    used = "mcp_tool_use" if kind.startswith("mcp") else "server_tool_use"
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "EqMB"},
        {"type": "text", "text": "a"},
        {"type": used, "id": "srvtoolu_1", "name": "tool", "input": {"query": "q"}},
        use(),
        {"type": kind, "tool_use_id": "srvtoolu_1", "content": content},
        {"type": "text", "text": "b"},
    ]
    said = messages_of(USER, {"role": "assistant", "content": blocks}, {"role": "user", "content": [result()]})
    call = {"id": "srvtoolu_1", "type": "function", "function": {"name": "tool", "arguments": '{"query": "q"}'}}
    own = {"id": "toolu_1", "type": "function", "function": {"name": "Read", "arguments": "{}"}}
    assert said[1:] == [
        {"role": "assistant", "content": "a", "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "srvtoolu_1", "content": text},
        {"role": "assistant", "content": "b", "tool_calls": [own]},
        {"role": "tool", "tool_call_id": "toolu_1", "content": ""},
    ]


def test_a_servers_result_at_the_end_of_a_turn_ends_it() -> None:
    blocks = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "https://a.b"}]},
        {"type": "server_tool_use", "id": "srvtoolu_2", "name": "web_search", "input": {}},
    ]
    said = messages_of(USER, {"role": "assistant", "content": blocks}, USER)
    assert [message["role"] for message in said] == ["user", "assistant", "tool", "user"]


def test_a_deep_result_of_a_server_is_no_fault() -> None:
    deep: Any = "x"
    for _ in range(300):
        deep = [{"content": deep}]
    blocks = [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": deep},
    ]
    assert messages_of(USER, {"role": "assistant", "content": blocks})[2]["content"] == "x"


# -- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effort", "expected"),
    [("low", "low"), ("medium", "medium"), ("high", None), ("xhigh", "high"), ("max", "high"), ("odd", None)],
)
def test_effort(effort: str, expected: str | None) -> None:
    assert chat_of(output_config={"effort": effort}).get("reasoning_effort") == expected


@pytest.mark.parametrize("older", [True, False])
def test_a_format_of_the_answer(older: bool) -> None:
    schema = {"type": "object", "properties": {"title": {"type": "string"}}}
    wanted = {"type": "json_schema", "schema": schema}
    chat = chat_of(output_format=wanted) if older else chat_of(output_config={"format": wanted})
    assert chat["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "output", "schema": schema, "strict": True},
    }


def test_a_request_to_count_needs_no_limit() -> None:
    made = MessagesFace(counting=True).request(body(max_tokens=None, tools=[READ], system="s"))
    assert not made.stream
    assert json.loads(made.body).keys() == {"model", "messages", "tools"}


def test_threads_get_the_answer_that_makes_sdks_go_on() -> None:
    face = MessagesFace()
    with pytest.raises(ToolCallError) as caught:
        face.request(recorded("anthropic_py_runner-01"))
    reply = face.error(caught.value)
    assert reply.status == 400
    error = error_of(reply.body)
    assert error["type"] == "invalid_request_error"
    assert error["details"] == {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}


# -- recordings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["claude_code-01", "claude_code-02", "claude_code_mcp-02", "anthropic_py-02", "ai_sdk_anthropic-02"]
)
def test_recorded_requests_are_chat_completions(name: str) -> None:
    chat = chat_of(recorded(name))
    roles = [message["role"] for message in chat["messages"]]
    assert set(roles) <= {"system", "user", "assistant", "tool"}
    assert all(tool["function"]["parameters"]["type"] == "object" for tool in chat["tools"])
    sent = json.loads(recorded(name))
    blocks = [
        block for message in sent["messages"] if isinstance(message["content"], list) for block in message["content"]
    ]
    assert roles.count("tool") == sum(block["type"] == "tool_result" for block in blocks)
    assert b"cache_control" not in json.dumps(chat).encode()


def test_claude_codes_title_request() -> None:
    chat = chat_of(recorded("claude_code_title-01"))
    assert "tools" not in chat
    assert chat["response_format"]["json_schema"]["schema"]["required"] == ["title"]
    assert chat["messages"][0]["content"].startswith("You are Claude Code")
    assert "[[CALL Read" in chat["messages"][1]["content"]


# -- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 1}, "model"),
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": [1]}, "messages"),
        ({"messages": [{"role": "tool", "content": ""}]}, "messages.0.role"),
        ({"messages": [{"content": ""}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": ["a"]}]}, "messages.0.content"),
        ({"messages": [USER, {"role": "user", "content": [{"text": "a"}]}]}, "messages.1.content.0.type"),
        ({"messages": [{"role": "user", "content": [{"type": "odd"}]}]}, "messages.0.content.0.type"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "messages.0.content.0.text"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "messages.0.content.0.source"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}
                ]
            },
            "messages.0.content.0.source.type",
        ),
        ({"messages": [{"role": "user", "content": [use()]}]}, "messages.0.content.0.type"),
        ({"messages": [USER, {"role": "assistant", "content": [result()]}]}, "messages.1.content.0.type"),
        ({"messages": [USER, {"role": "assistant", "content": [PNG]}]}, "messages.1.content.0"),
        ({"messages": [USER, {"role": "assistant", "content": [{**use(), "id": ""}]}]}, "messages.1.content.0.id"),
        ({"messages": [USER, {"role": "assistant", "content": [{**use(), "name": 5}]}]}, "messages.1.content.0.name"),
        (
            {"messages": [USER, {"role": "assistant", "content": [{**use(), "input": "{}"}]}]},
            "messages.1.content.0.input",
        ),
        (
            {"messages": [USER, {"role": "user", "content": [{"type": "text", "text": "x"}, result("toolu_2")]}]},
            "messages.1.content.1.tool_use_id",
        ),
        (
            {"messages": [{"role": "user", "content": [{**result(), "tool_use_id": None}]}]},
            "messages.0.content.0.tool_use_id",
        ),
        ({"system": 1}, "system"),
        ({"system": [{"type": "image"}]}, "system.0.type"),
        ({"system": [{"type": "text"}]}, "system.0.text"),
        ({"stream": "yes"}, "stream"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"top_p": 1.5}, "top_p"),
        ({"top_k": 1.5}, "top_k"),
        ({"stop_sequences": "END"}, "stop_sequences"),
        ({"stop_sequences": [1]}, "stop_sequences"),
        ({"thinking": "on"}, "thinking"),
        ({"thinking": {}}, "thinking.type"),
        ({"output_config": []}, "output_config"),
        ({"output_config": {"format": {"type": "text"}}}, "output_config.format.type"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"input_schema": {}}]}, "tools.0.name"),
        ({"tools": [READ, {"name": "b"}]}, "tools.1.input_schema"),
        ({"tools": [{"name": "b", "input_schema": []}]}, "tools.0.input_schema"),
        ({"tools": [{**READ, "description": 1}]}, "tools.0.description"),
        ({"tools": [READ, READ]}, "tools.1.name"),
        ({"tools": [READ], "tool_choice": "auto"}, "tool_choice"),
        ({"tools": [READ], "tool_choice": {"type": "required"}}, "tool_choice.type"),
        ({"tools": [READ], "tool_choice": {"type": "tool"}}, "tool_choice.name"),
        ({"tools": [READ], "tool_choice": {"type": "tool", "name": "Write"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
    ],
)
def test_faults_name_the_clients_field(fields: dict[str, Any], param: str) -> None:
    error = refused(**fields)
    assert error.param == param
    told = error_of(MessagesFace().error(error).body)
    assert told["type"] == "invalid_request_error"
    assert told["message"].startswith(f"{param}: ")


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'"text"', b"null", b'{"model": "\xff"}', b"\x00", b"{" * 100_000])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(ToolCallError) as caught:
        MessagesFace().request(data)
    assert caught.value.code == "invalid_json"


def test_a_thread_that_is_null_is_none() -> None:
    data = body().replace(b'"model"', b'"thread": null, "container": null, "model"')
    assert chat_of(data).keys() == {"model", "max_tokens", "messages"}
