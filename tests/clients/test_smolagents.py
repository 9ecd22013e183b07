"""smolagents' ToolCallingAgent: tool_choice required, content as parts, its own stop strings, usage everywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import MARK, write_calls

from .common import ARGUMENTS, CALL, MODEL, QUESTION, Lookup, need

if TYPE_CHECKING:
    from .conftest import OpenGateway

smolagents = need("smolagents")


@pytest.mark.parametrize("stream", [False, True])
def test_agent_runs_the_tool_and_then_calls_final_answer(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, *, stream: bool
) -> None:
    @smolagents.tool  # type: ignore[untyped-decorator]
    def lookup_code(city: str, days: int) -> str:
        """Look up the code of a city.

        Args:
            city: the city name
            days: number of days
        """
        return lookup.run(city, days)

    def model(body: dict[str, Any]) -> str:
        marks = MARK.findall(str(body["messages"]))
        # The library's stop strings stand in the arguments on purpose: they must not cut the call.
        final = {"answer": f"Observation: {marks[-1]}"} if marks else {}
        return write_calls(format_name, ("final_answer", final) if marks else CALL)

    gateway = open_gateway(model, format=format_name)
    chat = smolagents.OpenAIModel(MODEL, api_base=gateway.url, api_key="unused", client_kwargs={"max_retries": 0})
    agent = smolagents.ToolCallingAgent(
        tools=[lookup_code], model=chat, stream_outputs=stream, max_steps=3, verbosity_level=smolagents.LogLevel.OFF
    )
    assert agent.run(QUESTION) == f"Observation: {lookup.code}"
    assert lookup.calls == [ARGUMENTS]
    assert len(gateway.backend.seen) == 2
    usage = agent.monitor.get_total_token_counts()
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0
