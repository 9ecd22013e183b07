"""`tools_budget`: what the model is shown of many tools, and `find_tools`, which the middleware answers itself."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse

from tests.exchange.test_rerun import exchanged, got, shown
from tests.helpers.answers import NativeBackend
from tests.helpers.fakes import Answer, InTurn, TextBackend, write_calls
from tests.helpers.received import received
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.formats.prompt.tools import signature
from toolcall_middleware.model import Tool

ARGUMENTS = {"type": "object", "properties": {"place": {"type": "string", "description": "Where."}},
             "required": ["place"]}  # fmt: skip
NAMES = ["read", *(f"get_item_{number}" for number in range(30)), "get_weather", "book_flight"]
ABOUT = {"get_weather": "Tells the weather of a city.", "book_flight": "Books a seat in an airplane."}
BUDGET = 900
FOUND = write_calls("json", ("find_tools", {"query": "weather city"}))
CALL = write_calls("json", ("get_weather", {"place": "Rome"}))
both = pytest.mark.parametrize("stream", [False, True])
each_face = pytest.mark.parametrize("face", ["chat", "messages", "responses"])


def about(name: str) -> str:
    return ABOUT.get(name, f"Does what {name} says. It takes its time. " + "More of this is told here. " * 4)


TOOLS = [(name, about(name), ARGUMENTS) for name in NAMES]


def body_of(face: str, tools: Sequence[tuple[str, str, Mapping[str, Any]]] = TOOLS, /, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "What is it like there?"}]
    if face == "messages":
        own = [{"name": name, "description": said, "input_schema": schema} for name, said, schema in tools]
        return {"model": "m", "max_tokens": 500, "messages": messages, "tools": own, **fields}
    if face == "responses":
        own = [{"type": "function", "name": name, "description": said, "parameters": schema}
               for name, said, schema in tools]  # fmt: skip
        return {"model": "m", "input": messages, "tools": own, **fields}
    own = [{"type": "function", "function": {"name": name, "description": said, "parameters": schema}}
           for name, said, schema in tools]  # fmt: skip
    return {"model": "m", "messages": messages, "tools": own, **fields}


PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


async def send(backend: Any, body: dict[str, Any], *, face: str = "chat", **options: Any) -> httpx.Response:
    given = {"tools_budget": BUDGET, "format": "json", "faces": "chat,messages,responses", **options}
    app = ToolCallMiddleware(backend, **given)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://a") as client:
        return await client.post(PATHS[face], json=body)


def events(response: httpx.Response) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]


def said(face: str, response: httpx.Response) -> tuple[str, list[tuple[str, Any]], dict[str, Any]]:
    """(text, calls, usage) of an answer."""
    assert response.status_code == 200, response.text
    answer = received(face, response.content)
    if face == "chat" and answer.streamed:
        assert len({chunk["id"] for chunk in events(response)}) == 1
    return answer.text, [(call.name, call.decoded()) for call in answer.calls], answer.usage or {}


def front(body: dict[str, Any]) -> str:
    """The first message that the backend got."""
    content = body["messages"][0]["content"]
    assert isinstance(content, str)
    return content


# -- the inner turn --------------------------------------------------------------------------------------------------


@both
@each_face
async def test_the_middleware_answers_find_tools_and_the_client_gets_the_call(face: str, stream: bool) -> None:
    backend = TextBackend([f"Let me see.\n{FOUND}", CALL])
    response = await send(backend, body_of(face, stream=stream), face=face)
    text, calls, _ = said(face, response)
    assert (text.strip(), calls) == ("Let me see.", [("get_weather", {"place": "Rome"})])
    assert "find_tools" not in response.text
    first, second = backend.bodies
    assert '"name":"get_weather"' not in front(first)
    assert "- get_weather: Tells the weather of a city." in front(first).replace("\\n", "\n")
    assert second["messages"][: len(first["messages"])] == first["messages"]
    asked, told = second["messages"][len(first["messages"]) :]
    assert (asked["role"], told["role"]) == ("assistant", "user")
    assert asked["content"].startswith("Let me see.")
    assert '"name":"get_weather"' in told["content"].replace(" ", "")


@both
async def test_the_header_counts_what_is_shown(stream: bool) -> None:
    backend = TextBackend(["Fine."])
    header = (await send(backend, body_of("chat", stream=stream))).headers["x-toolcall"]
    found = dict(part.split("=") for part in header.split("; "))
    assert int(found["tools_shown"]) + int(found["tools_deferred"]) == len(NAMES)
    assert int(found["tools_deferred"]) > 10


def thinking(field: str, *odd: Any) -> InTurn:
    """A backend that thinks in a field of its own before it searches, and before it calls; odd: what that holds."""

    def said(thought: str, text: str) -> NativeBackend:
        signed = [{"type": "reasoning.text", "text": thought, "signature": thought[:3]}]
        held = odd[0] if odd else signed if field == "reasoning_details" else thought
        return NativeBackend({"role": "assistant", "content": text, field: held})

    return InTurn(said("One. ", f"Let me see.\n{FOUND}"), said("Two.", CALL))


@both
@each_face
@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "content"])
async def test_what_is_thought_before_a_search_is_in_the_answer(face: str, stream: bool, field: str) -> None:
    backend: Any = thinking(field)
    options: dict[str, Any] = {}
    asked = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2000} if face == "messages" else {}
    if field == "content":
        backend = TextBackend([f"<think>One. </think>Let me see.\n{FOUND}", f"<think>Two.</think>{CALL}"])
        options["reasoning_field"] = "reasoning"
    response = await send(backend, body_of(face, stream=stream, **asked), face=face, **options)
    assert received(face, response.content).reasoning == "One. Two."
    assert said(face, response)[:2] == ("Let me see.\n", [("get_weather", {"place": "Rome"})])


@both
@pytest.mark.parametrize("odd", [5, {"text": "x"}, "x", None])
async def test_odd_signed_thoughts_are_no_fault(stream: bool, odd: Any) -> None:
    response = await send(thinking("reasoning_details", odd), body_of("chat", stream=stream))
    assert said("chat", response)[1] == [("get_weather", {"place": "Rome"})]


@both
async def test_signed_thoughts_before_a_search_stay(stream: bool) -> None:
    response = await send(thinking("reasoning_details"), body_of("chat", stream=stream))
    chunks = events(response) if stream else [response.json()]
    messages = [choice["delta" if stream else "message"] for chunk in chunks for choice in chunk["choices"]]
    parts = [part for message in messages for part in message.get("reasoning_details", ())]
    assert [part["text"] for part in parts] == ["One. ", "Two."]


@both
@each_face
async def test_usage_holds_the_inner_turn(face: str, stream: bool) -> None:
    backend = TextBackend([FOUND, CALL])
    fields: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream and face == "chat" else {}
    response = await send(backend, body_of(face, stream=stream, **fields), face=face, usage="count")
    usage = said(face, response)[2]
    alone = TextBackend([CALL])
    once = said(face, await send(alone, body_of(face, stream=stream, **fields), face=face, usage="count"))[2]
    assert usage["prompt_tokens"] > 2 * once["prompt_tokens"]


ROME = [("get_weather", {"place": "Rome"})]
SEARCH = f"Let me see.\n{FOUND}"
READ = ("read", {"place": "x"})
BAD = f"So:\n{write_calls('json', READ, ('get_weather', {'place': 3}))}"
BOTH = write_calls("json", READ, ("find_tools", {"query": "weather"}))
CHECKED = {"validate_arguments": "retry", "coerce_arguments": False}
# What the model writes, one answer each time it is asked; fields of the request; settings; the client's text and calls.
TURNS: dict[str, tuple[list[str], dict[str, Any], dict[str, Any], str, list[Any]]] = {
    "what is checked is held over the inner turn": ([SEARCH, BAD, CALL], {}, CHECKED, "Let me see.", ROME),
    "a stop string before the search ends it": ([f"Let me END see.\n{FOUND}"], {"stop": "END"}, {}, "Let me", []),
    "prose that is dropped is dropped before it": ([SEARCH, CALL], {}, {"prose": "drop"}, "", ROME),
    "so is prose beside a required call": ([SEARCH, CALL], {"tool_choice": "required"}, {}, "", ROME),
    "a loop of searches ends": ([FOUND] * 4, {}, {}, "", []),
    "calls before a search are the answer": ([BOTH], {}, {}, "", [READ]),
    "a call from the one line that fits needs no search": ([CALL], {}, {}, "", ROME),
}


@both
@pytest.mark.parametrize("case", TURNS)
async def test_an_answer_over_inner_turns(case: str, stream: bool) -> None:
    answers, fields, settings, text, calls = TURNS[case]
    backend = TextBackend(answers)
    got = said("chat", await send(backend, body_of("chat", stream=stream, **fields), **settings))
    assert (got[0].strip(), got[1], len(backend.seen)) == (text, calls, len(answers))


@both
async def test_a_required_call_comes_after_the_inner_turn(stream: bool) -> None:
    backend = TextBackend([FOUND, CALL])
    body = body_of("chat", stream=stream, tool_choice="required", parallel_tool_calls=False)
    assert said("chat", await send(backend, body))[1] == [("get_weather", {"place": "Rome"})]
    schema = json.dumps(backend.bodies[0]["response_format"])
    assert "find_tools" in schema
    assert "book_flight" in schema


@both
async def test_half_of_a_surrogate_pair_before_the_search_is_survived(stream: bool) -> None:
    backend = InTurn(*(NativeBackend({"content": text}) for text in (f"\ud800{FOUND}", CALL)))
    assert said("chat", await send(backend, body_of("chat", stream=stream)))[1] == [("get_weather", {"place": "Rome"})]


@both
async def test_a_search_beside_several_choices_is_not_offered(stream: bool) -> None:
    backend = TextBackend(["Fine."])
    await send(backend, body_of("chat", stream=stream, n=2))
    assert "find_tools" not in front(backend.bodies[0])


@both
async def test_a_trace_tells_the_inner_turn_and_is_run_again(stream: bool) -> None:
    backend = TextBackend([f"Let me see.\n{FOUND}", CALL])
    request = {"tools": body_of("chat")["tools"]}
    response, trace = await exchanged(backend, stream=stream, request=request, tools_budget=BUDGET, format="json")
    decided = {(row.get("what"), row.get("value")) for row in trace.rows if row["kind"] == "decision"}
    assert {("ask again", "find_tools"), ("tools", "deferred")} <= decided
    assert shown(trace) == got(response) == [("get_weather", '{"place": "Rome"}')]


@each_face
async def test_a_call_beside_a_search_is_none_of_the_answers(face: str) -> None:
    """The backend's own call, in the same message as a search in its text."""
    beside = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"place": "Oslo"}'}}
    first = NativeBackend({"content": f"I look. {FOUND}", "tool_calls": [beside]})
    backend = InTurn(first, NativeBackend({"content": "It is warm."}))
    text, calls, _ = said(face, await send(backend, body_of(face), face=face))
    assert (text, calls) == ("I look. It is warm.", [])


@both
async def test_a_search_that_finds_nothing_is_told(stream: bool) -> None:
    backend = TextBackend([write_calls("json", ("find_tools", {"query": "zzz"})), "I cannot."])
    assert said("chat", await send(backend, body_of("chat", stream=stream)))[0] == "I cannot."
    assert "No tool fits" in backend.bodies[1]["messages"][-1]["content"]


@both
@pytest.mark.parametrize("arguments", ["{}", '{"place": 3}', '{"city": "Rome"}'])
async def test_a_call_from_the_one_line_that_does_not_fit_gets_the_definition(stream: bool, arguments: str) -> None:
    backend = TextBackend([f"Hm.\n{write_calls('json', ('get_weather', arguments))}", CALL])
    text, calls, _ = said("chat", await send(backend, body_of("chat", stream=stream), coerce_arguments=False))
    assert (text.strip(), calls) == ("Hm.", [("get_weather", {"place": "Rome"})])
    told = backend.bodies[1]["messages"][-1]["content"]
    assert "The arguments do not fit" in told
    assert '"required"' in told


@both
async def test_a_call_from_the_one_line_that_cannot_be_checked_is_one(stream: bool) -> None:
    endless = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a|a)*$"}}}
    arguments = {"a": "a" * 60 + "!"}
    backend = TextBackend([write_calls("json", ("get_weather", arguments))])
    body = body_of("chat", [*TOOLS[:-2], ("get_weather", "Tells the weather.", endless)], stream=stream)
    assert said("chat", await send(backend, body))[1] == [("get_weather", arguments)]
    assert len(backend.seen) == 1


@both
async def test_a_search_that_the_token_limit_cuts_is_none(stream: bool) -> None:
    backend = TextBackend([Answer(FOUND[:70], finish_reason="length")])
    response = await send(backend, body_of("chat", stream=stream))
    assert received("chat", response.content).finish_reason == "length"
    assert len(backend.seen) == 1


@both
@each_face
async def test_an_error_after_the_inner_turn_is_told_in_the_answer(face: str, stream: bool) -> None:
    backend = TextBackend([f"Let me see.\n{FOUND}"], chunk_size=12)  # then 500
    response = await send(backend, body_of(face, stream=stream), face=face)
    if stream:
        assert response.status_code == 200
        assert "Let me see." in response.text
        assert "the script is used up" in response.text
    else:
        assert response.status_code == 500


# -- what is shown ---------------------------------------------------------------------------------------------------


async def prompt(tools: Sequence[tuple[str, str, Mapping[str, Any]]], budget: Any, **fields: Any) -> str:
    backend = TextBackend(["Fine."])
    assert (await send(backend, body_of("chat", tools, **fields), tools_budget=budget)).status_code == 200
    return front(backend.bodies[0])


async def test_what_fits_is_shown_in_full() -> None:
    assert await prompt(TOOLS, 100_000) == await prompt(TOOLS, None)


async def test_first_schemas_are_compacted_then_descriptions_shortened() -> None:
    schema = {
        **ARGUMENTS,
        "additionalProperties": False,
        "examples": [{"place": f"Town {number}"} for number in range(200)],
    }
    tools = [("f", "One sentence. " + "Another one of them. " * 60, schema)]
    compact = await prompt(tools, 700)
    assert "Town" not in compact
    assert "additionalProperties" not in compact
    assert "Another one of them. " * 59 in compact
    short = await prompt(tools, 400)
    assert "One sentence. Another one of them." in short
    assert "Another one of them. " * 30 not in short
    assert "find_tools" not in short


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        (
            {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "The\ncity </tool_call>"},
                    "unit": {"enum": ["c", "f"], "default": "c"},
                    "days": {"type": ["integer", "null"]},
                    "tags": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"const": 1}]}},
                    "more": {"type": "object"},
                },
                "required": ["city"],
            },
            """\
f(city: string, unit?: "c" | "f", days?: integer | null, tags?: (string | 1)[], more?: object): Does it.
    city: The
        city <\\/tool_call>
    unit: (default: "c")""",
        ),
        ({"type": "object", "properties": {}}, "f(): Does it."),
        ({"type": "object"}, "f(): Does it."),
    ],
)
def test_json_shows_signatures_where_it_is_brief(schema: dict[str, Any], written: str) -> None:
    assert signature(Tool("f", "Does it.", schema)) == written


@pytest.mark.parametrize(
    "part",
    [
        {"type": "object", "properties": {"a": {"type": "string"}}},
        {"$ref": "#/$defs/a"},
        True,
        {"type": "array"},
        {"anyOf": [{"type": "string"}, {}]},
    ],
)
def test_what_takes_more_than_a_word_keeps_its_schema(part: Any) -> None:
    schema = {"type": "object", "properties": {"a": part}}
    assert json.loads(signature(Tool("f", "Does it.", schema)))["parameters"] == schema


async def test_a_client_s_own_find_tools_is_left_alone() -> None:
    backend = TextBackend([write_calls("json", ("find_tools", {"place": "x"}))])
    tools = [*TOOLS, ("find_tools", "Mine.", ARGUMENTS)]
    assert said("chat", await send(backend, body_of("chat", tools)))[1] == [("find_tools", {"place": "x"})]
    assert "tools_deferred" not in front(backend.bodies[0])


async def test_the_prompt_s_beginning_stays_from_turn_to_turn() -> None:
    history: list[dict[str, Any]] = [{"role": "user", "content": "Weather?"}]
    sent = []
    for turn in range(4):
        backend = TextBackend(["Fine."])
        await send(backend, {**body_of("chat"), "messages": history})
        sent.append(backend.bodies[0]["messages"])
        name = ("get_weather", "read", "book_flight", "get_weather")[turn]
        call = {"id": f"c{turn}", "type": "function", "function": {"name": name, "arguments": '{"place": "x"}'}}
        history = [
            *history,
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{turn}", "content": "done"},
            {"role": "user", "content": "And get_item_29?" if turn == 2 else "And now?"},
        ]
    for earlier, later in itertools.pairwise(sent):
        assert later[: len(earlier)] == earlier
    whole = json.dumps(sent[-1])
    assert whole.count('\\"name\\":\\"get_weather\\"') == 1
    assert whole.count('\\"name\\":\\"book_flight\\"') == 1
    assert whole.count('\\"name\\":\\"get_item_29\\"') == 1


async def test_a_named_tool_is_always_shown() -> None:
    backend = TextBackend([CALL])
    choice = {"type": "function", "function": {"name": "get_weather"}}
    response = await send(backend, body_of("chat", tool_choice=choice))
    assert said("chat", response)[1] == [("get_weather", {"place": "Rome"})]
    assert '"name":"get_weather"' in backend.bodies[0]["messages"][-1]["content"]


# -- native backends -------------------------------------------------------------------------------------------------


def calls(name: str, arguments: str) -> NativeBackend:
    """A backend that makes a call itself."""
    call = {"index": 0, "id": "x1", "type": "function", "function": {"name": name, "arguments": arguments}}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return NativeBackend({"tool_calls": [call]}, finish="tool_calls", usage=usage)


@both
async def test_a_native_backend_gets_the_same_list_as_tools(stream: bool) -> None:
    backend = InTurn(calls("find_tools", '{"query": "weather"}'), calls("get_weather", '{"place": "Rome"}'))
    response = await send(backend, body_of("chat", stream=stream), mode="native")
    assert said("chat", response)[1] == [("get_weather", {"place": "Rome"})]
    first, second = ([tool["function"]["name"] for tool in body["tools"]] for body in backend.bodies)
    assert first[-1] == "find_tools"
    assert second == [*first, "get_weather"]
    assert [message["role"] for message in backend.bodies[1]["messages"]] == ["user", "assistant", "tool"]
    if not stream:
        assert response.json()["usage"]["prompt_tokens"] == 20


# -- the window ------------------------------------------------------------------------------------------------------


class Windowed:
    """A text backend that says how large its window is, at `/props` as llama.cpp, or in its list of models as vLLM."""

    def __init__(self, path: str, told: dict[str, Any]) -> None:
        self.backend = TextBackend(["Fine.", "Fine."])
        self._path = path
        self._told = told
        self.asked: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["method"] != "GET":
            await self.backend(scope, receive, send)
            return
        self.asked.append(scope["path"])
        known = scope["path"] == self._path
        await JSONResponse(self._told if known else {}, 200 if known else 404)(scope, receive, send)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/props", {"default_generation_settings": {"n_ctx": 3 * BUDGET}}),
        ("/v1/models", {"data": [{"id": "other", "max_model_len": 9}, {"id": "m", "max_model_len": 3 * BUDGET}]}),
    ],
)
async def test_auto_is_a_third_of_the_window(path: str, told: dict[str, Any]) -> None:
    backend = Windowed(path, told)
    app = ToolCallMiddleware(backend, tools_budget="auto", format="json")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://a") as client:
        for _ in range(2):
            response = await client.post(PATHS["chat"], json=body_of("chat"))
            assert "tools_deferred=" in response.headers["x-toolcall"]
    assert backend.asked.count(path) == 1
    assert front(backend.backend.bodies[0]) == await prompt(TOOLS, BUDGET)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/nowhere", {}),
        # llama.cpp says 0 where the model's own window holds.
        ("/props", {"default_generation_settings": {"n_ctx": 0}}),
        ("/props", {"default_generation_settings": {"n_ctx": -1}}),
        ("/v1/models", {"data": [{"id": "m", "max_model_len": -1}]}),
    ],
)
async def test_auto_without_a_known_window_shows_all(path: str, told: dict[str, Any]) -> None:
    backend = Windowed(path, told)
    await send(backend, body_of("chat"), tools_budget="auto")
    assert front(backend.backend.bodies[0]) == await prompt(TOOLS, None)
