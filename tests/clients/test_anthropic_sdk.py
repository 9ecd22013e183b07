"""Anthropic's SDK for Python before a text model: whole, with the stream's helper, and with the tool runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import obedient_model

from .common import ARGUMENTS, CALL, MODEL, QUESTION, SCHEMA, SYSTEM, Lookup, need

if TYPE_CHECKING:
    from .conftest import Gateway, OpenGateway

anthropic = need("anthropic")

PROSE = "I will look it up.\n\n"
TOOL = {"name": "lookup_code", "description": "Look up the code of a city.", "input_schema": SCHEMA}
ASKED: dict[str, Any] = {"model": MODEL, "max_tokens": 500, "system": SYSTEM}
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


def opened(open_gateway: OpenGateway, format_name: str) -> tuple[Gateway, Any]:
    gateway = open_gateway(obedient_model(format_name, CALL, prose=PROSE), format=format_name)
    url = gateway.url.removesuffix("/v1")
    return gateway, gateway.closing.enter_context(anthropic.Anthropic(base_url=url, api_key="unused", max_retries=0))


@STREAMS
def test_two_turns_end_in_an_answer_made_from_the_result(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, *, stream: bool
) -> None:
    _, client = opened(open_gateway, format_name)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]

    def ask() -> Any:
        if not stream:
            return client.messages.create(**ASKED, messages=messages, tools=[TOOL])
        with client.messages.stream(**ASKED, messages=messages, tools=[TOOL]) as events:
            for _ in events:
                pass
            return events.get_final_message()

    called = ask()
    assert (called.stop_reason, [block.type for block in called.content]) == ("tool_use", ["text", "tool_use"])
    assert (called.content[0].text.strip(), called.content[1].input) == (PROSE.strip(), ARGUMENTS)
    assert called.usage.input_tokens > 0 < called.usage.output_tokens
    result = {"type": "tool_result", "tool_use_id": called.content[1].id, "content": lookup.run(**ARGUMENTS)}
    messages += [{"role": "assistant", "content": called.content}, {"role": "user", "content": [result]}]
    answer = ask()
    assert (answer.stop_reason, answer.content[0].text) == ("end_turn", f"The code is {lookup.code}.")


@STREAMS
def test_the_tool_runner_runs_the_tool_and_goes_on_with_the_whole_conversation(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, *, stream: bool
) -> None:
    gateway, client = opened(open_gateway, format_name)

    @anthropic.beta_tool  # type: ignore[untyped-decorator]
    def lookup_code(city: str, days: int) -> str:
        """Look up the code of a city."""
        return lookup.run(city, days)

    messages = [{"role": "user", "content": QUESTION}]
    runner = client.beta.messages.tool_runner(**ASKED, messages=messages, tools=[lookup_code], stream=stream)
    answers = [one.get_final_message() if stream else one for one in runner]
    assert [answer.stop_reason for answer in answers] == ["tool_use", "end_turn"]
    assert answers[-1].content[0].text == f"The code is {lookup.code}."
    assert lookup.calls == [ARGUMENTS]
    # The face refuses threads in the words that make the SDK send whole conversations: the backend sees two requests.
    assert [seen.path for seen in gateway.backend.seen] == ["/v1/chat/completions"] * 2


def test_tokens_are_counted_and_models_listed(open_gateway: OpenGateway, format_name: str) -> None:
    _, client = opened(open_gateway, format_name)
    messages = [{"role": "user", "content": QUESTION}]
    bare = client.messages.count_tokens(model=MODEL, messages=messages).input_tokens
    assert client.messages.count_tokens(model=MODEL, messages=messages, tools=[TOOL]).input_tokens > bare > 0
    assert [model.id for model in client.models.list()] == [MODEL]
