"""Frameworks on the APIs that they use by themselves: Responses and Messages, whole and streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import obedient_model

from .common import ARGUMENTS, CALL, MODEL, QUESTION, SYSTEM, Lookup, need

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Gateway, OpenGateway

STREAMS = pytest.mark.parametrize("stream", [False, True])
PROSE = "I will look it up.\n\n"


def tool_of(lookup: Lookup) -> Callable[[str, int], str]:
    def lookup_code(city: str, days: int) -> str:
        """Look up the code of a city."""
        return lookup.run(city, days)

    return lookup_code


def check(gateway: Gateway, lookup: Lookup, output: str) -> None:
    assert output == f"The code is {lookup.code}."
    assert lookup.calls == [ARGUMENTS]
    assert [seen.path for seen in gateway.backend.seen] == ["/v1/chat/completions"] * 2


@pytest.mark.asyncio
@STREAMS
async def test_openai_agents_with_their_default_model(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, *, stream: bool
) -> None:
    agents, openai = need("agents"), need("openai")
    gateway = open_gateway(obedient_model(format_name, CALL, prose=PROSE), format=format_name)
    async with openai.AsyncOpenAI(base_url=gateway.url, api_key="unused", max_retries=0) as client:
        model = agents.OpenAIResponsesModel(MODEL, client)
        tools = [agents.function_tool(tool_of(lookup))]
        agent = agents.Agent(name="helper", instructions=SYSTEM, model=model, tools=tools)
        if stream:
            result = agents.Runner.run_streamed(agent, QUESTION)
            kinds = [event.name async for event in result.stream_events() if event.type == "run_item_stream_event"]
            assert [kind for kind in kinds if kind.startswith("tool")] == ["tool_called", "tool_output"]
        else:
            result = await agents.Runner.run(agent, QUESTION)
    check(gateway, lookup, result.final_output)
    assert result.context_wrapper.usage.total_tokens > 0


@pytest.mark.asyncio
@STREAMS
@pytest.mark.parametrize("face", ["messages", "responses"])
async def test_pydantic_ai(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, face: str, *, stream: bool
) -> None:
    pydantic_ai = need("pydantic_ai")
    # `run_stream` takes the first text for the output.
    gateway = open_gateway(obedient_model(format_name, CALL, prose="" if stream else PROSE), format=format_name)
    model: Any
    client: Any
    if face == "messages":
        client = need("anthropic").AsyncAnthropic(
            base_url=gateway.url.removesuffix("/v1"), api_key="unused", max_retries=0
        )
        provider = need("pydantic_ai.providers.anthropic").AnthropicProvider(anthropic_client=client)
        model = need("pydantic_ai.models.anthropic").AnthropicModel(MODEL, provider=provider)
    else:
        client = need("openai").AsyncOpenAI(base_url=gateway.url, api_key="unused", max_retries=0)
        provider = need("pydantic_ai.providers.openai").OpenAIProvider(openai_client=client)
        model = need("pydantic_ai.models.openai").OpenAIResponsesModel(MODEL, provider=provider)
    async with client:
        agent = pydantic_ai.Agent(model, system_prompt=SYSTEM, retries=0)
        agent.tool_plain(tool_of(lookup))
        if stream:
            async with agent.run_stream(QUESTION) as run:
                output = await run.get_output()
        else:
            output = (await agent.run(QUESTION)).output
    check(gateway, lookup, output)


@STREAMS
@pytest.mark.parametrize("face", ["messages", "responses"])
def test_langchain(open_gateway: OpenGateway, format_name: str, lookup: Lookup, face: str, *, stream: bool) -> None:
    tools, langchain = need("langchain_core.tools"), need("langchain.agents")
    gateway = open_gateway(obedient_model(format_name, CALL, prose=PROSE), format=format_name)
    model: Any
    if face == "messages":
        chat = need("langchain_anthropic", extra=False).ChatAnthropic
        model = chat(
            model=MODEL, base_url=gateway.url.removesuffix("/v1"), api_key="unused", max_retries=0, streaming=stream
        )
    else:
        model = need("langchain_openai").ChatOpenAI(
            model=MODEL, base_url=gateway.url, api_key="unused", max_retries=0, streaming=stream,
            use_responses_api=True,
        )  # fmt: skip
    agent = langchain.create_agent(model, [tools.tool(tool_of(lookup))], system_prompt=SYSTEM)
    last = agent.invoke({"messages": [("user", QUESTION)]})["messages"][-1]
    check(gateway, lookup, last.text)
    assert last.usage_metadata["output_tokens"] > 0
