"""What is asked of constrained decoding, and what is remembered of backends that refuse it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory, Fact, PendingRefusals, Topic
from toolcall_middleware.upstream.negotiation import ConstraintLadder, ConstraintRequest, constraint_requests
from toolcall_middleware.upstream.raw_prompt import RawPrompt

from ..request.chats import CLOCK, HELLO, WEATHER, request

NAMED = {"type": "function", "function": {"name": "clock"}}
ALLOWED = {
    "type": "allowed_tools",
    "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "weather"}}]},
}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def requests(choice: Any, *, constrain: str = "auto", fmt: str = "json", **more: Any) -> list[ConstraintRequest]:
    chat = request(HELLO, tool_choice=choice, **more)
    return constraint_requests(chat, registry.get(fmt), Settings(constrain=constrain))


def kinds(choice: Any, **more: Any) -> list[str]:
    return [asking.kind for asking in requests(choice, **more)]


def fields(choice: Any, **more: Any) -> dict[str, Any]:
    """What is asked first."""
    return next((asking.fields for asking in requests(choice, **more)), {})


def schema_of(asked: dict[str, Any]) -> str:
    response_format = asked["response_format"]
    assert response_format["type"] == "json_schema"
    assert response_format["json_schema"]["strict"] is True
    return str(response_format["json_schema"]["schema"])


def test_text_completions_of_llama_cpp_are_asked_for_no_structural_tag() -> None:
    url = "http://127.0.0.1:8000/v1"
    chat, fmt = request(HELLO, tool_choice="required"), registry.get("hermes")
    told = Settings(send="completions", template=url, upstream_url=url)  # as of template=props
    asked = constraint_requests(chat, fmt, told)
    assert [asking.kind for asking in asked] == ["response_format", "llama_cpp"]
    chats = constraint_requests(chat, fmt, told.replace(send="chat"))
    assert chats[0].kind == "structural_tag"


@pytest.mark.parametrize("is_llama_cpp", [True, False])
def test_text_completions_name_a_schema_as_their_server_reads_it(is_llama_cpp: bool) -> None:
    url = "http://127.0.0.1:8000/v1"
    settings = Settings(send="completions", template=url if is_llama_cpp else "none", upstream_url=url)
    prompts: Any = None  # nothing is written here
    raw = RawPrompt(request(HELLO), settings, registry.get("json"), prompts)
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    chat = json.dumps({"model": "m", "messages": [HELLO], "response_format": wanted}).encode()
    sent = json.loads(raw.body(chat))
    assert sent.get("json_schema") == ({"type": "object"} if is_llama_cpp else None)
    assert sent.get("response_format") == (None if is_llama_cpp else wanted)


def test_what_silences_a_schema_in_text_completions_of_llama_cpp_is_left_out() -> None:
    url = "http://127.0.0.1:8000/v1"
    properties = {
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 3},
        "page": {"type": "string", "format": "uri"},
        "mail": {"type": "string", "pattern": "^(?!x).*$"},
        "date": {"type": "string", "pattern": "^[0-9]{4}$"},
        "any": True,
        "not": {"type": "string"},
    }
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": properties}}}
    chat = request(HELLO, tools=[tool], tool_choice="required")
    told = Settings(send="completions", template=url, upstream_url=url)
    for settings, left_out in ((told, True), (told.replace(send="chat"), False)):
        asked = constraint_requests(chat, registry.get("json"), settings)[0]
        schema = asked.fields["response_format"]["json_schema"]["schema"]
        said = schema["properties"]["tool_calls"]["items"]["properties"]["arguments"]["properties"]
        if not left_out:
            assert said == properties
            continue
        assert said == {
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
            "page": {"type": "string"},
            "mail": {"type": "string"},
            "date": {"type": "string", "pattern": "^[0-9]{4}$"},
            "any": {},
            "not": {"type": "string"},
        }


def test_a_required_call_is_constrained_to_any_tool() -> None:
    schema = schema_of(fields("required"))
    assert "weather" in schema
    assert "clock" in schema


@pytest.mark.parametrize(("choice", "there", "missing"), [(NAMED, "clock", "weather"), (ALLOWED, "weather", "clock")])
def test_a_narrower_choice_is_constrained_to_its_tools(choice: Any, there: str, missing: str) -> None:
    schema = schema_of(fields(choice))
    assert f"'{there}'" in schema
    assert f"'{missing}'" not in schema


@pytest.mark.parametrize("choice", ["auto", "none", None])
def test_an_answer_that_may_be_text_is_not_constrained(choice: Any) -> None:
    assert fields(choice) == {}


def test_nothing_is_asked_where_it_is_switched_off() -> None:
    assert fields("required", constrain="off") == {}
    assert fields("required", constrain="response_format")


def test_what_a_model_refused_is_not_asked_again() -> None:
    def asked(memory: BackendMemory, model: str = "m", **settings: Any) -> str | None:
        chat = request(HELLO, tools=(WEATHER,), tool_choice="required", model=model)
        ladder = ConstraintLadder(Settings(**settings), memory, PendingRefusals(memory, model))
        ladder.begin(chat, registry.get("json"))
        return None if ladder.asked is None else ladder.asked.kind

    memory = BackendMemory()
    assert asked(memory) == "response_format"
    memory.refuse("m", "response_format")
    assert asked(memory) == "llama_cpp"
    memory.refuse("m", "llama_cpp")
    assert asked(memory) is None
    # It is the operator's word against the memory's.
    assert asked(memory, constrain="response_format") == "response_format"
    assert asked(memory, model="other") == "response_format"


def test_ways_come_in_order_of_what_they_leave_free() -> None:
    assert kinds("required") == ["response_format", "llama_cpp"]
    assert kinds("required", fmt="hermes") == ["structural_tag", "response_format", "llama_cpp"]


@pytest.mark.parametrize("kind", ["response_format", "llama_cpp", "structured_outputs", "structural_tag"])
def test_the_operators_word_is_the_only_way(kind: str) -> None:
    assert kinds("required", constrain=kind) == [kind]


def test_nothing_that_engines_ignore_in_silence_is_asked() -> None:
    asked = [fields("required", constrain=kind) for kind in ("response_format", "llama_cpp", "structured_outputs")]
    assert "guided" not in str(asked)


def test_structural_tags_are_the_formats_own_syntax() -> None:
    form = fields("required", fmt="hermes")["response_format"]["format"]
    assert form["type"] == "triggered_tags"
    assert form["triggers"] == ["<tool_call>"]
    assert form["at_least_one"] is True
    assert "stop_after_first" not in form
    assert [tag["begin"] for tag in form["tags"]] == [
        '<tool_call>\n{"name": "weather", "arguments": ',
        '<tool_call>\n{"name": "clock", "arguments": ',
    ]
    assert {tag["end"] for tag in form["tags"]} == {"}\n</tool_call>"}
    one = fields("required", fmt="hermes", parallel_tool_calls=False)["response_format"]["format"]
    assert one["stop_after_first"] is True


def test_strict_arguments_are_held_where_a_tag_can_trigger_it() -> None:
    strict = {**WEATHER, "function": {**WEATHER["function"], "strict": True}}
    form = fields("auto", fmt="hermes", tools=(strict,))["response_format"]["format"]
    assert "at_least_one" not in form
    assert fields("auto", fmt="hermes") == {}
    assert fields("auto", fmt="json", tools=(strict,)) == {}
    # A tag would leave the text free, whose schema the client asks for.
    wanted = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    asked = kinds("auto", fmt="hermes", tools=(strict,), response_format=wanted)
    assert asked == ["response_format", "llama_cpp"]


def test_the_memory_is_by_model_and_field() -> None:
    memory = BackendMemory()
    memory.refuse("a", "x")
    assert memory.refuses("a", "x")
    assert not memory.refuses("a", "y")
    assert not memory.refuses("b", "x")


def test_the_memory_fades() -> None:
    clock = Clock()
    memory = BackendMemory(clock)
    memory.refuse("a", "x")
    clock.now = 500
    assert memory.refuses("a", "x")
    memory.refuse("a", "x")
    clock.now = 1000
    assert memory.refuses("a", "x")
    clock.now = 1101
    assert not memory.refuses("a", "x")
    assert not memory.refuses("a", "x")


def test_the_memory_is_bounded() -> None:
    memory = BackendMemory()
    for number in range(2000):
        memory.refuse(f"model-{number}", "x")
    assert memory.refuses("model-1999", "x")
    assert not memory.refuses("model-0", "x")
    assert sum(memory.refuses(f"model-{number}", "x") for number in range(2000)) <= 512


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        ("auto", ["weather", "clock"]),
        ("required", ["weather", "clock"]),
        (None, ["weather", "clock"]),
        (NAMED, ["clock"]),
        (ALLOWED, ["weather"]),
        ("none", []),
    ],
)
def test_only_what_may_be_called_now_is_offered(choice: Any, names: list[str]) -> None:
    offered = request(HELLO, tools=(WEATHER, CLOCK), tool_choice=choice).callable_tools
    assert [tool.name for tool in offered.tools] == names


def test_what_is_remembered_of_a_model_is_bounded_in_names_and_in_their_length() -> None:
    memory = BackendMemory()
    fact = Fact(Topic.TOOLS)
    memory.note("m" * 512, fact)
    assert memory.recall("m" * 512, fact)
    memory.note("m" * 513, fact)
    assert not memory.recall("m" * 513, fact)
