"""openai-agents (its chat-completions model), whole and streamed, with a tool and with a hand-off."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import obedient_model, write_calls

from .common import ARGUMENTS, CALL, MODEL, QUESTION, SYSTEM, Lookup, need

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from .conftest import Gateway, OpenGateway

agents = need("agents")
openai = need("openai")


@contextlib.asynccontextmanager
async def agent_of(gateway: Gateway, lookup: Lookup, **options: Any) -> AsyncIterator[Any]:
    def lookup_code(city: str, days: int) -> str:
        """Look up the code of a city."""
        return lookup.run(city, days)

    async with openai.AsyncOpenAI(base_url=gateway.url, api_key="unused", max_retries=0) as client:
        model = agents.OpenAIChatCompletionsModel(MODEL, client)
        tools = [agents.function_tool(lookup_code)]
        yield agents.Agent(name="helper", instructions=SYSTEM, model=model, tools=tools, **options)


@pytest.mark.asyncio
@pytest.mark.parametrize("prose", ["", "I will look it up.\n\n"])
@pytest.mark.parametrize("stream", [False, True])
async def test_agent_runs_the_tool_and_answers(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, prose: str, *, stream: bool
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose=prose), format=format_name)
    async with agent_of(gateway, lookup) as agent:
        if stream:
            result = agents.Runner.run_streamed(agent, QUESTION)
            kinds = [event.name async for event in result.stream_events() if event.type == "run_item_stream_event"]
            assert [kind for kind in kinds if kind.startswith("tool")] == ["tool_called", "tool_output"]
        else:
            result = await agents.Runner.run(agent, QUESTION)
    assert result.final_output == f"The code is {lookup.code}."
    assert lookup.calls == [ARGUMENTS]
    assert len(gateway.backend.seen) == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_hand_off_is_a_call_without_arguments(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, *, stream: bool
) -> None:
    script = [write_calls(format_name, ("transfer_to_helper", {})), write_calls(format_name, CALL), "Done."]
    gateway = open_gateway(script, format=format_name)
    settings = agents.ModelSettings(parallel_tool_calls=False)
    async with agent_of(gateway, lookup, model_settings=settings) as helper:
        front = agents.Agent(name="front", instructions="Hand over.", model=helper.model, handoffs=[helper])
        if stream:
            result = agents.Runner.run_streamed(front, QUESTION)
            assert [event async for event in result.stream_events()]
        else:
            result = await agents.Runner.run(front, QUESTION)
    assert (result.final_output, result.last_agent.name) == ("Done.", "helper")
    assert lookup.calls == [ARGUMENTS]
