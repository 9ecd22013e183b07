"""litellm's SDK: streamed and whole, and its rebuilding of a whole answer from chunks."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import obedient_model

from .common import ARGUMENTS, CALL, MODEL, QUESTION, TOOL, Lookup, need

if TYPE_CHECKING:
    from .conftest import OpenGateway

# Read at import: without it the library asks the network for its table of prices.
os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
litellm = need("litellm", extra=False)
need("mcp", extra=False)  # what its completion() imports as soon as there are tools


@pytest.mark.parametrize("stream", [False, True])
def test_two_turns_end_in_an_answer_made_from_the_result(
    open_gateway: OpenGateway, format_name: str, lookup: Lookup, *, stream: bool
) -> None:
    gateway = open_gateway(obedient_model(format_name, CALL), format=format_name)
    messages: list[Any] = [{"role": "user", "content": QUESTION}]
    for _turn in range(2):
        answer = litellm.completion(
            f"openai/{MODEL}",
            messages,
            api_base=gateway.url,
            api_key="unused",
            num_retries=0,
            tools=[TOOL],
            stream=stream,
            stream_options={"include_usage": True} if stream else None,
        )
        if stream:
            answer = litellm.stream_chunk_builder(list(answer), messages=messages)
        assert answer.usage.total_tokens > 0
        message = answer.choices[0].message
        messages.append(message)
        for call in message.tool_calls or []:
            result = lookup.run(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert message.content == f"The code is {lookup.code}."
    assert lookup.calls == [ARGUMENTS]
