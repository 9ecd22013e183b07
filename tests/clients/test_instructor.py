"""instructor: a named tool that must come exactly once, and its partial streaming of a tool named `PartialPlace`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import write_calls

from .common import ARGUMENTS, MODEL, QUESTION, need

if TYPE_CHECKING:
    from .conftest import OpenGateway

instructor = need("instructor", extra=False)
openai = need("openai")
pydantic = need("pydantic")

Place: Any = pydantic.create_model("Place", city=(str, ...), days=(int, ...))
ASK: Any = [{"role": "user", "content": QUESTION}]


@pytest.mark.parametrize("prose", ["", "Here it is:\n\n"])
def test_model_is_filled_from_the_one_call(open_gateway: OpenGateway, format_name: str, prose: str) -> None:
    gateway = open_gateway([prose + write_calls(format_name, ("Place", ARGUMENTS))], format=format_name)
    client = instructor.from_openai(openai.OpenAI(base_url=gateway.url, api_key="unused"), mode=instructor.Mode.TOOLS)
    place = client.create(model=MODEL, messages=ASK, response_model=Place, max_retries=0)
    assert place.model_dump() == ARGUMENTS


def test_partial_models_fill_up(open_gateway: OpenGateway, format_name: str, *, in_pieces: bool) -> None:
    def model(body: dict[str, Any]) -> str:
        assert "PartialPlace" in str(body["messages"])
        return write_calls(format_name, ("PartialPlace", ARGUMENTS))

    gateway = open_gateway(model, format=format_name)
    client = instructor.from_openai(openai.OpenAI(base_url=gateway.url, api_key="unused"), mode=instructor.Mode.TOOLS)
    partial = list(client.create_partial(model=MODEL, messages=ASK, response_model=Place, max_retries=0))
    assert partial[-1].model_dump() == ARGUMENTS
    assert len(partial) > (3 if in_pieces else 0)
