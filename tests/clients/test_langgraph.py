"""LangGraph's react agent on langchain-openai: the tool is run by the graph, and its result goes back by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import obedient_model

from .common import ARGUMENTS, CALL, MODEL, QUESTION, SYSTEM, Lookup, need

if TYPE_CHECKING:
    from .conftest import Gateway, OpenGateway

need("langgraph")
langchain = need("langchain.agents")
langchain_openai = need("langchain_openai")
messages = need("langchain_core.messages")

ASK: Any = {"messages": [("user", QUESTION)]}


def chat_of(gateway: Gateway, *, stream: bool = False) -> Any:
    return langchain_openai.ChatOpenAI(
        model=MODEL, base_url=gateway.url, api_key="unused", max_retries=0, streaming=stream, stream_usage=True
    )


def agent_of(gateway: Gateway, lookup: Lookup, *, stream: bool) -> Any:
    def lookup_code(city: str, days: int) -> str:
        """Look up the code of a city."""
        return lookup.run(city, days)

    return langchain.create_agent(chat_of(gateway, stream=stream), [lookup_code], system_prompt=SYSTEM)


@pytest.mark.parametrize("prose", ["", "I will look it up.\n\n"])
@pytest.mark.parametrize("stream", [False, True])
def test_agent_runs_the_tool_and_answers(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, prose: str, *, stream: bool
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose=prose), format=format_name)
    history = agent_of(gateway, lookup, stream=stream).invoke(ASK)["messages"]
    assert lookup.calls == [ARGUMENTS]
    assert [message.type for message in history] == ["human", "ai", "tool", "ai"]
    assert history[1].content.strip() == prose.strip()
    assert history[1].response_metadata["finish_reason"] == "tool_calls"
    assert not history[1].invalid_tool_calls
    assert history[2].tool_call_id == history[1].tool_calls[0]["id"]
    assert history[3].content == f"The code is {lookup.code}."
    assert history[3].response_metadata["finish_reason"] == "stop"
    assert all(history[at].usage_metadata["total_tokens"] > 0 for at in (1, 3))
    assert len(gateway.backend.seen) == 2


def test_agent_streams_tokens_and_tool_call_chunks(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, *, in_pieces: bool
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL), format=format_name)
    pieces = [
        message
        for message, _meta in agent_of(gateway, lookup, stream=True).stream(ASK, stream_mode="messages")
        if isinstance(message, messages.AIMessageChunk)
    ]
    chunks = [chunk for piece in pieces for chunk in piece.tool_call_chunks]
    assert [chunk["name"] for chunk in chunks if chunk["name"]] == ["lookup_code"]
    assert {chunk["index"] for chunk in chunks} == {0}
    assert len(chunks) > (3 if in_pieces else 0)
    assert "".join(piece.content for piece in pieces) == f"The code is {lookup.code}."
    assert lookup.calls == [ARGUMENTS]


@pytest.mark.parametrize("stream", [False, True])
def test_agent_runs_parallel_calls(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, *, stream: bool
) -> None:
    second = {"city": "Rome", "days": 5}
    gateway = open_gateway(obedient_model(format_name, CALL, ("lookup_code", second)), format=format_name)
    history = agent_of(gateway, lookup, stream=stream).invoke(ASK)["messages"]
    assert sorted(lookup.calls, key=str) == sorted([ARGUMENTS, second], key=str)
    assert [message.type for message in history] == ["human", "ai", "tool", "tool", "ai"]
    assert len({call["id"] for call in history[1].tool_calls}) == 2
    assert history[4].content == f"The code is {lookup.code} and {lookup.code}."
    # Both results reach the model in one turn of the user, in the order of the calls.
    last = gateway.backend.last.messages[-1]["content"]
    assert last.index("for day 3") < last.index("for day 5")


def test_structured_output_by_a_named_tool(open_gateway: OpenGateway, format_name: str) -> None:
    schema = {"title": "Place", "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    gateway = open_gateway(obedient_model(format_name, ("Place", {"city": "Paris"})), format=format_name)
    for stream in (False, True):
        chat = chat_of(gateway, stream=stream).with_structured_output(schema, method="function_calling")
        assert chat.invoke(QUESTION) == {"city": "Paris"}
    assert list(chat.stream(QUESTION))[-1] == {"city": "Paris"}
