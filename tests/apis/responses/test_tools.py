"""Tools and the choice among them: offered as functions under names that engines take, mapped back, or left out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.apis.responses.tools import Kind, arguments_of, call_fields, without_words_on_json
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.request.parse import read_request
from toolcall_middleware.settings import Settings

from . import chat
from .asking import CODES, PATCH, WEATHER, asked, chat_of, streamed
from .received import check_stream

SEARCH = {"type": "tool_search", "execution": "client", "description": "Finds tools.", "parameters": {"type": "object"}}
HOSTED = ["web_search", "web_search_preview", "file_search", "code_interpreter", "image_generation", "mcp",
          "computer_use_preview", "computer", "programmatic_tool_calling"]  # fmt: skip


def offered(*tools: Any, **fields: Any) -> list[str]:
    return [tool["function"]["name"] for tool in chat_of(tools=list(tools), **fields).get("tools", [])]


def refused(**fields: Any) -> ToolCallError:
    with pytest.raises(ToolCallError) as caught:
        asked(**fields)
    assert caught.value.status == 400
    return caught.value


def test_a_function_stays_as_it_was_spelled() -> None:
    schema = '{"type":"object",  "properties": {"n": {"default": 1.00}}}'
    data = '{"model": "m", "input": "x", "tools": [{"type": "function", "name": "f", "parameters": ' + schema + "}]}"
    from tests.apis.fed import ResponsesFace

    assert schema.encode() in ResponsesFace().request(data.encode()).body


def test_strict_and_description_are_kept_and_the_rest_is_not() -> None:
    tool = {**WEATHER, "strict": True, "defer_loading": False, "allowed_callers": ["direct"], "output_schema": {}}
    assert chat_of(tools=[tool])["tools"] == [
        {"type": "function", "function": {**{k: v for k, v in WEATHER.items() if k != "type"}, "strict": True}}
    ]


def test_a_custom_tool_is_a_function_of_one_text() -> None:
    function = chat_of(tools=[PATCH])["tools"][0]["function"]
    assert function["description"] == "Edits files."
    assert function["parameters"]["required"] == ["input"]
    text = function["parameters"]["properties"]["input"]
    assert "lark grammar:\nstart: LINE+" in text["description"]
    assert "pattern" not in text
    plain = {**PATCH, "format": {"type": "grammar", "syntax": "regex", "definition": "[A-Z]{2}-[0-9]+"}}
    text = chat_of(tools=[plain])["tools"][0]["function"]["parameters"]["properties"]["input"]
    assert text["pattern"] == "^([A-Z]{2}-[0-9]+)$"


@pytest.mark.parametrize(
    ("description", "kept"),
    [
        ("Edits files. This is a FREEFORM tool, so do not wrap the patch in JSON.", "Edits files."),
        ("Reads JSON files. Never wrap it in JSON! Then stop.", "Reads JSON files. Then stop."),
        ("Takes JavaScript, not JSON.\nIt runs at once.", "It runs at once."),
        ("No word of it.", "No word of it."),
        ("It isn't JSON", ""),
    ],
)
def test_sentences_that_forbid_json_are_left_out(description: str, kept: str) -> None:
    assert without_words_on_json(description) == kept


@pytest.mark.parametrize("hosted", HOSTED)
def test_hosted_tools_are_left_out_and_told(hosted: str) -> None:
    _, request = asked(tools=[{"type": hosted}, WEATHER])
    assert request.dropped_tools == (hosted,)
    assert len(json.loads(request.body)["tools"]) == 1


def test_dropped_names_fit_into_a_header() -> None:
    _, request = asked(tools=[{"type": "a\r\nb: c" * 40}, {"type": "ö"}])
    assert all(re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name) for name in request.dropped_tools)


def test_without_tools_nothing_is_said_of_them() -> None:
    made = chat_of(tools=[{"type": "web_search"}], tool_choice="auto", parallel_tool_calls=True)
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(made)


def test_names_in_namespaces_fit_every_engine_and_never_collide() -> None:
    space: dict[str, Any] = {
        "type": "namespace",
        "name": "mcp.server/with spaces",
        "description": "Odd names.",
        "tools": [
            {"type": "function", "name": "x" * 80},
            {"type": "function", "name": "x" * 81},
            {"type": "function", "name": "a.b"},
            {"type": "function", "name": "a b"},
            {"type": "custom", "name": "free"},
        ],
    }
    plain = {"type": "function", "name": "mcp__codes__lookup_code"}
    names = offered(space, CODES, plain)
    assert names[-1] == "mcp__codes__lookup_code", "a plain name is the client's own"
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in names)
    assert names == offered(space, CODES, plain)
    for name, entry in zip(names, space["tools"], strict=False):
        got = check_stream(streamed(chat.stream(chat.call(0, name, "{}"), "tool_calls"), tools=[space, CODES, plain]))
        assert got.calls[0][1:3] == (entry["name"], "mcp.server/with spaces")


def test_two_tools_of_one_name_are_an_error_that_names_the_second() -> None:
    face, request = asked(tools=[WEATHER, CODES, WEATHER])
    with pytest.raises(ToolCallError) as caught:
        read_request(request.body, Settings())
    assert json.loads(face.error(caught.value).body)["error"]["param"] == "tools[2].name"


def test_a_bad_schema_is_told_where_the_client_wrote_it() -> None:
    space = {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f", "parameters": 3}]}
    face, request = asked(tools=[WEATHER, space])
    with pytest.raises(ToolCallError) as caught:
        read_request(request.body, Settings())
    assert json.loads(face.error(caught.value).body)["error"]["param"] == "tools[1].tools[0].parameters"


def test_tools_in_the_input_are_offered() -> None:
    items = [
        {"type": "additional_tools", "role": "developer", "tools": [{"type": "namespace", "name": "functions",
         "tools": [{"type": "custom", "name": "exec"}]}]},
        {"role": "user", "content": "hi"},
    ]  # fmt: skip
    assert offered(input=items) == ["functions__exec"]
    got = check_stream(streamed(chat.stream(chat.call(0, "functions__exec", '{"input": "1+1"}'), "stop"), input=items))
    assert got.calls == [("custom_tool_call", "exec", "functions", "1+1")]


def test_deferred_tools_wait_for_a_search_of_the_client() -> None:
    deferred = {**WEATHER, "defer_loading": True}
    call = {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "w"}}
    found = {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [deferred, CODES]}
    user = {"role": "user", "content": "hi"}
    assert offered(deferred) == ["get_weather"], "nobody could load it"
    assert offered(deferred, SEARCH) == ["tool_search"]
    assert offered(deferred, SEARCH, input=[user, call, found]) == [
        "tool_search", "get_weather", "mcp__codes__lookup_code"
    ]  # fmt: skip
    assert offered(CODES, SEARCH, input=[user, call, found]) == [
        "mcp__codes__lookup_code",
        "tool_search",
        "get_weather",
    ]


def test_a_search_of_the_server_is_left_out() -> None:
    _, request = asked(tools=[{"type": "tool_search"}, WEATHER])
    assert request.dropped_tools == ("tool_search",)


def test_the_models_search_is_the_clients_item() -> None:
    deltas = chat.call(0, "tool_search", '{"que', 'ry": "mail"}')
    got = check_stream(streamed(chat.stream(deltas, "tool_calls"), tools=[SEARCH]))
    assert got.output[0]["arguments"] == {"query": "mail"}
    assert got.output[0]["execution"] == "client"


@pytest.mark.parametrize(
    ("environment", "is_offered"),
    [(None, True), ({"type": "local"}, True), ({"type": "container_auto"}, False), ("x", False)],
)
def test_only_a_shell_of_the_client_is_offered(environment: Any, is_offered: bool) -> None:
    assert offered({"type": "shell", "environment": environment}) == (["shell"] if is_offered else [])


def test_local_kinds_are_sound_functions() -> None:
    _, request = asked(tools=[{"type": "shell"}, {"type": "local_shell"}, {"type": "apply_patch"}, SEARCH])
    read = read_request(request.body, Settings())
    assert read is not None


ARGUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["command", "commands", "type", "path", "diff", "env", "timeout_ms", "x"]), inner, max_size=4
    ),
    max_leaves=8,
)  # fmt: skip


@pytest.mark.slow
@given(kind=st.sampled_from([Kind.SHELL, Kind.LOCAL_SHELL, Kind.APPLY_PATCH, Kind.TOOL_SEARCH]), value=ARGUMENTS)
def test_whatever_the_model_writes_fits_the_items_type(kind: Kind, value: Any) -> None:
    name = {Kind.SHELL: "shell", Kind.LOCAL_SHELL: "local_shell", Kind.APPLY_PATCH: "apply_patch"}.get(kind)
    tool = SEARCH if name is None else {"type": name}
    deltas = chat.call(0, kind.value, json.dumps(value))
    check_stream(streamed(chat.stream(deltas, "tool_calls"), tools=[tool]))


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (Kind.SHELL, {"commands": ["ls", "pwd"], "timeout_ms": 4}),
        (Kind.LOCAL_SHELL, {"command": ["ls"], "working_directory": "/", "env": {"A": "b"}}),
        (Kind.APPLY_PATCH, {"type": "create_file", "path": "a", "diff": "+x"}),
        (Kind.TOOL_SEARCH, {"query": "x"}),
    ],
)
def test_a_local_call_comes_back_as_it_was_made(kind: Kind, arguments: dict[str, Any]) -> None:
    assert arguments_of(kind, call_fields(kind, json.dumps(arguments))) == arguments


FUNCTION = {"type": "function", "function": {"name": "get_weather"}}
CODE_FUNCTION = {"type": "function", "function": {"name": "mcp__codes__lookup_code"}}


@pytest.mark.parametrize(
    ("choice", "made"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ({"type": "function", "name": "get_weather"}, FUNCTION),
        ({"type": "custom", "name": "apply_patch"}, {"type": "function", "function": {"name": "apply_patch"}}),
        ({"type": "function", "name": "lookup_code"}, CODE_FUNCTION),
        ({"type": "shell"}, {"type": "function", "function": {"name": "shell"}}),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "get_weather"}]},
            {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [FUNCTION]}},
        ),
        (
            {
                "type": "allowed_tools",
                "mode": "auto",
                "tools": [{"type": "mcp", "server_label": "x"}, {"type": "namespace", "name": "mcp__codes"}],
            },
            {
                "type": "allowed_tools",
                "allowed_tools": {
                    "mode": "auto",
                    "tools": [{"type": "function", "function": {"name": "mcp__codes__lookup_code"}}],
                },
            },
        ),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}, "none"),
    ],
)  # fmt: skip
def test_each_form_of_the_choice(choice: Any, made: Any) -> None:
    fields = {"tools": [WEATHER, PATCH, CODES, {"type": "shell"}, {"type": "web_search"}], "tool_choice": choice}
    assert chat_of(**fields)["tool_choice"] == made
    assert read_request(asked(**fields)[1].body, Settings()) is not None
    data = streamed(chat.stream(chat.text("a")), **fields)
    assert check_stream(data).response["tool_choice"] == choice


@pytest.mark.parametrize(
    ("choice", "named"),
    [
        ({"type": "web_search_preview"}, "web_search_preview"),
        ({"type": "file_search"}, "file_search"),
        ({"type": "mcp", "server_label": "s"}, "mcp"),
        ({"type": "function", "name": "other"}, "other"),
        ({"type": "apply_patch"}, "apply_patch"),
        ({"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]}, "web_search"),
        ({"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "other"}]}, "other"),
        ("required", "web_search"),
    ],
)
def test_a_choice_that_cannot_be_kept_is_refused_by_name(choice: Any, named: str) -> None:
    offered_here = [] if choice == "required" else [WEATHER]
    error = refused(tools=[*offered_here, {"type": "web_search"}], tool_choice=choice)
    assert error.code == "invalid_tool_choice"
    assert error.param == "tool_choice"
    assert named in error.message


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        (3, "tools"),
        ([3], "tools[0]"),
        ([{}], "tools[0].type"),
        ([{"type": 3}], "tools[0].type"),
        ([{"type": "function"}], "tools[0].name"),
        ([{"type": "function", "function": {"name": "x"}}], "tools[0].name"),
        ([{"type": "function", "name": "x", "description": 3}], "tools[0].description"),
        ([{"type": "custom", "name": "x", "format": {"type": "grammar"}}], "tools[0].format"),
        ([{"type": "namespace", "name": "x"}], "tools[0].tools"),
        ([{"type": "namespace", "name": "x", "tools": [{"type": "namespace"}]}], "tools[0].tools[0].type"),
    ],
)
def test_a_fault_is_told_where_the_client_wrote_it(tools: Any, param: str) -> None:
    assert refused(tools=tools).param == param


@pytest.mark.parametrize("choice", ["any", 3, [], {"type": 3}, {"type": "function"}, {"type": "allowed_tools"},
                                    {"type": "allowed_tools", "tools": [3]},
                                    {"type": "allowed_tools", "mode": "x", "tools": []}])  # fmt: skip
def test_a_choice_of_no_form_is_refused(choice: Any) -> None:
    assert str(refused(tools=[WEATHER], tool_choice=choice).param).startswith("tool_choice")
