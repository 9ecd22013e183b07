"""pydantic-ai's agent, whole and streamed, and its structured output (a required tool named `final_result`)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import obedient_model, write_calls

from .common import ARGUMENTS, CALL, MODEL, QUESTION, SYSTEM, Lookup, need

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pydantic_ai

    from .conftest import Gateway, OpenGateway
else:
    pydantic_ai = need("pydantic_ai")

models = need("pydantic_ai.models.openai")
providers = need("pydantic_ai.providers.openai")
openai = need("openai")
pydantic = need("pydantic")

PROSE = "I will look it up.\n\n"
Place: Any = pydantic.create_model("Place", city=(str, ...), days=(int, ...), note=(str | None, None))


@contextlib.asynccontextmanager
async def agent_of(gateway: Gateway, lookup: Lookup, **options: Any) -> AsyncIterator[pydantic_ai.Agent[None, Any]]:
    async with openai.AsyncOpenAI(base_url=gateway.url, api_key="unused", max_retries=0) as client:
        model = models.OpenAIChatModel(MODEL, provider=providers.OpenAIProvider(openai_client=client))
        agent: pydantic_ai.Agent[None, Any] = pydantic_ai.Agent(model, system_prompt=SYSTEM, retries=0, **options)

        @agent.tool_plain  # type: ignore[untyped-decorator]
        def lookup_code(city: str, days: int) -> str:
            """Look up the code of a city."""
            return lookup.run(city, days)

        yield agent


@pytest.mark.asyncio
@pytest.mark.parametrize("prose", ["", PROSE])
async def test_agent_runs_the_tool_and_answers(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, prose: str
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose=prose), format=format_name)
    async with agent_of(gateway, lookup) as agent:
        result = await agent.run(QUESTION)
    assert result.output == f"The code is {lookup.code}."
    assert lookup.calls == [ARGUMENTS]
    assert len(gateway.backend.seen) == 2


@pytest.mark.asyncio
@pytest.mark.parametrize("prose", ["", PROSE])
async def test_streamed_run_tells_of_the_call_and_answers(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, prose: str
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose=prose), format=format_name)
    kinds: list[str] = []

    async def listen(_context: Any, events: Any) -> None:
        kinds.extend([event.event_kind async for event in events])

    async with agent_of(gateway, lookup) as agent:
        result = await agent.run(QUESTION, event_stream_handler=listen)
    assert result.output == f"The code is {lookup.code}."
    assert lookup.calls == [ARGUMENTS]
    assert kinds.count("function_tool_call") == kinds.count("function_tool_result") == 1
    assert kinds.count("part_delta") > 3
    assert result.usage.input_tokens > 0


@pytest.mark.asyncio
async def test_run_stream_takes_the_text_after_the_tool_for_its_answer(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup
) -> None:
    # Without prose: run_stream() takes the first text that it sees for the answer, whoever serves it.
    gateway = open_gateway(obedient_model(format_name, CALL), format=format_name)
    async with agent_of(gateway, lookup) as agent, agent.run_stream(QUESTION) as run:
        texts = [text async for text in run.stream_text(delta=True, debounce_by=None)]
    assert "".join(texts) == f"The code is {lookup.code}."
    assert len(texts) > 3
    assert lookup.calls == [ARGUMENTS]


@pytest.mark.asyncio
async def test_prose_can_be_dropped_for_run_stream(open_gateway: OpenGateway, format_name: str, lookup: Lookup) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL, prose=PROSE), format=format_name, prose="drop")
    async with agent_of(gateway, lookup) as agent, agent.run_stream(QUESTION) as run:
        assert await run.get_output() == f"The code is {lookup.code}."
    assert lookup.calls == [ARGUMENTS]


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_structured_output_comes_by_a_required_tool(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, *, stream: bool
) -> None:
    script = [write_calls(format_name, CALL), write_calls(format_name, ("final_result", {**ARGUMENTS, "note": None}))]
    gateway = open_gateway(script, format=format_name)
    async with agent_of(gateway, lookup, output_type=Place) as agent:
        if stream:
            async with agent.run_stream(QUESTION) as run:
                output = await run.get_output()
        else:
            output = (await agent.run(QUESTION)).output
    assert output == Place(**ARGUMENTS)
    assert lookup.calls == [ARGUMENTS]
