"""Items of `input` become the messages of the chat completion, and each fault is told in the client's words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.apis.responses.request import Carried, write_carried
from toolcall_middleware.errors import ToolCallError

from .asking import CODES, PATCH, WEATHER, asked, body, messages_of

USER: dict[str, Any] = {"role": "user", "content": "hi"}


def carried(text: str) -> str:
    return write_carried(Carried(text))


def fcall(call_id: str = "call_a", name: str = "get_weather", arguments: Any = "{}", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **more}


def foutput(call_id: str = "call_a", output: Any = "sunny", **more: Any) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": output, **more}


def chat_call(call_id: str = "call_a", name: str = "get_weather", arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def refused(*items: Any, **fields: Any) -> ToolCallError:
    with pytest.raises(ToolCallError) as caught:
        asked(input=list(items), **fields)
    assert caught.value.status == 400
    return caught.value


def test_a_string_is_the_users() -> None:
    assert json.loads(asked(input="hello")[1].body)["messages"] == [{"role": "user", "content": "hello"}]


def said(text: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def thought(text: str) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [], "encrypted_content": carried(text)}


def result(call_id: str = "call_a", content: str = "sunny") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def calling(*calls: dict[str, Any], content: Any = None, **more: Any) -> dict[str, Any]:
    return {**said(content), "tool_calls": list(calls), **more}


PATCHED = '*** "x"\n'
HISTORIES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]]]] = {
    # Templates take one system message, at the front, and not each of them knows developers.
    "the first system messages are one": (
        [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "a"}]},
         {"role": "system", "content": "b"}, USER, {"role": "developer", "content": "late"}],
        [{"role": "system", "content": "first\n\na\n\nb"}, USER, {"role": "system", "content": "late"}],
    ),
    "parts": (
        [{"role": "user", "content": [
            {"type": "input_text", "text": "look"},
            {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "original"},
            {"type": "input_image", "image_url": "http://x/a.png", "detail": "auto"},
            {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"},
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]}],
        [{"role": "user", "content": [
            {"type": "text", "text": "look"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA", "detail": "high"}},
            {"type": "image_url", "image_url": {"url": "http://x/a.png"}},
            {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA"}},
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}}]}],
    ),
    "text and parallel calls are one message, and their results follow": (
        [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "One moment."}]},
         fcall("call_a"), fcall("call_b", arguments='{"city": "Rome"}'), foutput("call_a"), foutput("call_b", "rain"),
         said("Done.")],
        [calling(chat_call(), chat_call("call_b", arguments='{"city": "Rome"}'), content="One moment."),
         result(), result("call_b", "rain"), said("Done.")],
    ),
    "text after a call stays in its message": (
        [fcall(), said("wait"), foutput()], [calling(chat_call(), content="wait"), result()]
    ),
    "two messages of the assistant stay two": ([said("a"), said("b")], [said("a"), said("b")]),
    "calls one after the other are turns": (
        [fcall("call_a"), foutput("call_a"), fcall("call_b"), foutput("call_b")],
        [calling(chat_call()), result(), calling(chat_call("call_b")), result("call_b")],
    ),
    "a refusal is text": ([said([{"type": "refusal", "refusal": "No."}])], [said("No.")]),
    "thoughts of one answer are one": (
        [thought("a"), fcall(), thought("b"), fcall("call_b"), foutput("call_a"), foutput("call_b")],
        [calling(chat_call(), chat_call("call_b"), reasoning_content="a\n\nb"), result(), result("call_b")],
    ),
    "a thought between a call and text is kept": (
        [fcall(), thought("a"), said("wait"), foutput()],
        [calling(chat_call(), content="wait", reasoning_content="a"), result()],
    ),
    "a thought with nothing said after it is gone": ([thought("a"), USER], [USER]),
    "a custom call is a function of one text": (
        [{"type": "custom_tool_call", "call_id": "call_a", "name": "apply_patch", "input": PATCHED},
         {"type": "custom_tool_call_output", "call_id": "call_a", "output": "ok"}],
        [calling(chat_call(name="apply_patch", arguments='{"input": "*** \\"x\\"\\n"}')), result(content="ok")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_items_are_messages(name: str) -> None:
    items, expected = HISTORIES[name]
    begins_with_system = expected[0]["role"] == "system"
    before = {"instructions": "first"} if begins_with_system else {}
    alone = begins_with_system or name == "parts"
    got = messages_of(*([] if alone else [USER]), *items, tools=[PATCH], **before)
    assert got == [*([] if alone else [USER]), *expected]


@pytest.mark.parametrize(
    "thought",
    [
        {"summary": [], "encrypted_content": "tcr1_dJeEJGhtIPCfmIA="},  # as 0.3.0 wrote it
        {"summary": [], "encrypted_content": carried("hm \U0001f600")},
        {"summary": [], "content": [{"type": "reasoning_text", "text": "hm \U0001f600"}]},
        {"summary": [], "content": None, "encrypted_content": carried("hm \U0001f600"), "id": "rs_1"},
        {
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "other"}],
            "encrypted_content": carried("hm \U0001f600"),
        },
    ],
)
def test_our_thoughts_go_back_to_the_model(thought: dict[str, Any]) -> None:
    got = messages_of(USER, {"type": "reasoning", **thought}, fcall(), foutput())
    expected = {"role": "assistant", "content": None, "reasoning_content": "hm \U0001f600", "tool_calls": [chat_call()]}
    assert got[1] == expected


@pytest.mark.parametrize(
    "foreign", ["gAAAAABo", "tcr1_", "tcr1_!!!", "tcr1_AAAAAGhlbGxv", "tcr1_ä", "tcr2_AAAA", 7, carried("x")[:-4]]
)
def test_what_others_encrypted_is_left_out(foreign: Any) -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "s"}], "encrypted_content": foreign}
    assert messages_of(USER, thought, {"role": "assistant", "content": "a"})[1:] == [
        {"role": "assistant", "content": "a"}
    ]


@pytest.mark.parametrize("tools", [[CODES], []])
def test_names_of_a_namespace_are_flat_also_when_it_is_not_offered_any_more(tools: list[Any]) -> None:
    got = messages_of(USER, fcall(name="lookup_code", namespace="mcp__codes"), foutput(), tools=tools)
    assert got[1]["tool_calls"][0]["function"]["name"] == "mcp__codes__lookup_code"


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("text", "text"),
        ([{"type": "input_text", "text": "a"}], "a"),
        (
            [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
            [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
        ),
        (
            [{"type": "input_image", "image_url": "data:x", "detail": "high"}],
            [{"type": "image_url", "image_url": {"url": "data:x", "detail": "high"}}],
        ),
        ([], "[]"),
        ({"a": 1}, '{"a":1}'),
        (None, "null"),
        ([{"type": "odd"}], '[{"type":"odd"}]'),
    ],
)
def test_an_output_is_text_parts_or_json(output: Any, content: Any) -> None:
    assert messages_of(USER, fcall(), foutput(output=output))[2]["content"] == content


def test_local_calls_and_their_outputs_come_back_as_calls() -> None:
    got = messages_of(
        USER,
        {
            "type": "local_shell_call", "id": "lsh_1", "call_id": "call_a", "status": "completed",
            "action": {"type": "exec", "command": ["ls", "-l"], "env": {}, "working_directory": "/x"},
        },
        {"type": "local_shell_call_output", "id": "lsh_1", "output": "a b"},
        {"type": "shell_call", "call_id": "call_b", "action": {"commands": ["ls"], "timeout_ms": 5}},
        {
            "type": "shell_call_output", "call_id": "call_b",
            "output": [
                {"stdout": "out", "stderr": "err", "outcome": {"type": "exit", "exit_code": 1}},
                {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}},
            ],
        },
        {
            "type": "apply_patch_call", "call_id": "call_c", "status": "completed",
            "operation": {"type": "delete_file", "path": "a"},
        },
        {"type": "apply_patch_call_output", "call_id": "call_c", "status": "failed"},
        {"type": "tool_search_call", "call_id": "call_d", "execution": "client", "arguments": {"query": "mail"}},
        {"type": "tool_search_output", "call_id": "call_d", "tools": [CODES]},
        tools=[WEATHER],
    )  # fmt: skip
    calls = [message["tool_calls"][0]["function"] for message in got if "tool_calls" in message]
    assert [(call["name"], json.loads(call["arguments"])) for call in calls] == [
        ("local_shell", {"command": ["ls", "-l"], "working_directory": "/x"}),
        ("shell", {"commands": ["ls"], "timeout_ms": 5}),
        ("apply_patch", {"type": "delete_file", "path": "a"}),
        ("tool_search", {"query": "mail"}),
    ]
    results = [message for message in got if message["role"] == "tool"]
    assert [result["content"] for result in results] == [
        "a b",
        "out\nerr\n(exit code 1)\n(stopped: it took too long)",
        "The patch could not be applied.",
        (
            "These tools can be called from now on:\n"
            '{"name":"mcp__codes__lookup_code","parameters":{"type":"object","properties":{}}}'
        ),
    ]
    assert [result.get("is_error") for result in results] == [None, None, True, None]


@pytest.mark.parametrize(
    "item",
    [
        {"type": "item_reference", "id": "msg_1"},
        {"id": "msg_1"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
        {"type": "file_search_call", "id": "fs_1", "queries": []},
        {"type": "mcp_call", "id": "mcp_1", "name": "x", "arguments": "{}", "server_label": "s", "output": "o"},
        {"type": "mcp_list_tools", "id": "mcpl_1", "tools": [], "server_label": "s"},
        {"type": "image_generation_call", "id": "ig_1", "result": "AA"},
        {"type": "code_interpreter_call", "id": "ci_1", "code": "1"},
        {"type": "computer_call", "id": "cu_1", "call_id": "call_x"},
        {"type": "computer_call_output", "call_id": "call_x", "output": {}},
        {"type": "tool_search_call", "id": "ts_1", "execution": "server", "arguments": {}},
        {"type": "tool_search_output", "execution": "server", "tools": []},
        {"type": "additional_tools", "role": "developer", "tools": []},
        {"type": "something_new", "id": "x_1"},
    ],
)
def test_what_only_openai_can_read_is_left_out(item: dict[str, Any]) -> None:
    assert messages_of(USER, item, USER) == [USER, USER]


def test_a_compacted_history_is_told_to_the_model() -> None:
    got = messages_of(USER, {"type": "compaction", "encrypted_content": "x"}, USER)
    assert [message["role"] for message in got] == ["user", "system", "user"]
    assert "compacted" in got[1]["content"]


@pytest.mark.parametrize(
    ("output", "content"),
    [
        ("ship it", "goal_objective:\nship it"),
        ([{"type": "input_text", "text": "ship it"}], "goal_objective:\nship it"),
        ({"goal": 1}, 'goal_objective:\n{"goal":1}'),
    ],
)
def test_a_named_output_that_answers_no_call_is_told_to_the_model(output: Any, content: str) -> None:
    """Codex tells a goal that way, after a call of its own and by itself; a refusal would end the conversation."""
    told = {"type": "function_call_output", "id": "fco_1", "name": "goal_objective", "namespace": "agent"}
    got = messages_of(USER, fcall(), foutput(), {**told, "output": output})
    assert got[1:] == [
        {"role": "assistant", "content": None, "tool_calls": [chat_call()]},
        {"role": "tool", "tool_call_id": "call_a", "content": "sunny"},
        {"role": "user", "content": content},
    ]


def test_a_picture_in_a_named_output_stays_one() -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,AA=="}
    told = {"type": "function_call_output", "call_id": None, "name": "screen", "output": [picture]}
    (got,) = messages_of(told)
    assert [part["type"] for part in got["content"]] == ["text", "image_url"]
    assert got["content"][0]["text"] == "screen:\n"


@pytest.mark.parametrize(
    ("items", "param"),
    [
        (["x"], "input[0]"),
        ([None], "input[0]"),
        ([USER, {"type": 3}], "input[1].type"),
        ([{"type": "mesage", "role": "user", "content": "hi"}], "input[0].type"),
        ([{"role": "tool", "content": "x"}], "input[0].role"),
        ([{"type": "message"}], "input[0].role"),
        ([{"role": "user"}], "input[0].content"),
        ([{"role": "user", "content": 3}], "input[0].content"),
        ([{"role": "user", "content": ["x"]}], "input[0].content[0]"),
        ([{"role": "user", "content": [{"type": "input_txt"}]}], "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "input[0].content[0].text"),
        ([{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}], "input[0].content[0].file_id"),
        ([{"role": "user", "content": [{"type": "input_image"}]}], "input[0].content[0].image_url"),
        ([{"role": "user", "content": [{"type": "input_file", "file_url": "u"}]}], "input[0].content[0].file_url"),
        ([{"role": "user", "content": [{"type": "input_file", "file_id": "u"}]}], "input[0].content[0].file_id"),
        ([{"role": "user", "content": [{"type": "input_audio"}]}], "input[0].content[0].input_audio"),
        ([{"role": "assistant", "content": [{"type": "input_image", "image_url": "u"}]}], "input[0].content[0].type"),
        ([USER, fcall(call_id="")], "input[1].call_id"),
        ([USER, {"type": "function_call", "call_id": "c"}], "input[1].name"),
        ([USER, fcall(arguments=3)], "input[1].arguments"),
        ([USER, fcall(namespace=3)], "input[1].namespace"),
        ([USER, {"type": "custom_tool_call", "call_id": "c", "name": "n"}], "input[1].input"),
        ([USER, fcall(), {"type": "function_call_output", "call_id": "call_a"}], "input[2].output"),
        ([USER, fcall(), {"type": "function_call_output", "output": "x"}], "input[2].call_id"),
        ([USER, fcall(), foutput("call_z")], "input[2].call_id"),
        ([USER, fcall(), foutput("call_z", name="get_weather")], "input[2].call_id"),
        ([USER, {"type": "function_call_output", "name": "goal_objective"}], "input[1].output"),
        ([], "input"),
        ([{"type": "item_reference", "id": "x"}], "input"),
    ],
)
def test_a_fault_is_told_where_the_client_wrote_it(items: list[Any], param: str) -> None:
    assert refused(*items).param == param


def test_an_output_of_no_call_is_an_error_that_names_the_id() -> None:
    error = refused(USER, {"type": "item_reference", "id": "fc_1"}, foutput("call_z"))
    assert error.code == "invalid_tool_call_id"
    assert "call_z" in error.message
    assert "reference" in error.message


@pytest.mark.parametrize(
    ("core", "param"),
    [
        ("messages[0].content", "instructions"),
        ("messages[1].content", "input[0].content"),
        ("messages[2].tool_calls[1].function.arguments", "input[2].arguments"),
        ("messages[2].tool_calls[0].id", "input[1].call_id"),
        ("messages[3].tool_call_id", "input[3].call_id"),
        ("messages[99].content", "input"),
        ("messages", "input"),
        ("tools[1].function.parameters.properties", "tools[1].tools[0].parameters.properties"),
        ("tools[0].function.name", "tools[0].name"),
        ("tool_choice", "tool_choice"),
        ("max_tokens", "max_output_tokens"),
        ("toolcall.mode", "toolcall.mode"),
        (None, None),
    ],
)
def test_errors_of_the_core_name_the_clients_field(core: str | None, param: str | None) -> None:
    items = [USER, fcall("call_a"), fcall("call_b"), foutput("call_a")]
    face, _ = asked(input=items, instructions="x", tools=[WEATHER, CODES])
    reply = face.error(ToolCallError("invalid_request", "no", param=core))
    assert json.loads(reply.body)["error"]["param"] == param


def test_half_an_emoji_of_the_client_does_no_harm() -> None:
    data = body().replace(b'"hi"', rb'"a\ud83d \ud83d\ude00"')
    from tests.apis.fed import ResponsesFace

    assert json.loads(ResponsesFace().request(data).body)["messages"][0]["content"] == "a� \U0001f600"


def test_parts_of_a_chat_completions_image_are_read() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
    (got,) = messages_of({"role": "user", "content": [{"type": "text", "text": "see"}, image]})
    assert got["content"] == [{"type": "text", "text": "see"}, image]
    (got,) = messages_of({"role": "user", "content": [{"type": "image_url", "image_url": "data:x"}]})
    assert got["content"] == [{"type": "image_url", "image_url": {"url": "data:x"}}]
    fault = refused({"role": "user", "content": [{"type": "image_url", "image_url": {"url": 1}}]})
    assert fault.param == "input[0].content[0].image_url.url"


def test_a_compaction_trigger_asks_the_model_for_a_summary() -> None:
    _, request = asked(input=[USER, {"type": "compaction_trigger"}], tools=[WEATHER], tool_choice="required")
    chat = json.loads(request.body)
    assert chat["tool_choice"] == "none"
    assert chat["messages"][0] == USER
    assert chat["messages"][1]["role"] == "user"
    assert chat["messages"][1]["content"].startswith("Summarise the conversation so far")


def test_a_summary_that_we_gave_is_read_again() -> None:
    got = messages_of(USER, {"type": "compaction", "encrypted_content": carried("They want tea.")}, USER)
    assert got[1] == {"role": "system", "content": "Summary of the earlier turns of this conversation:\nThey want tea."}
