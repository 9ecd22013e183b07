"""openai-python as the tests use it: its raw answers are checked against every rule of the wire and its own types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.helpers.stream_rules import Answered, check_stream, check_whole

from .common import MODEL, OTHER_TOOL, QUESTION, SYSTEM, TOOL, need

if TYPE_CHECKING:
    import openai

    from .conftest import Gateway
else:
    openai = need("openai")

TOOLS: Any = [TOOL, OTHER_TOOL]
NAMES = {"lookup_code", "send_mail"}
ASK: Any = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTION}]
PROSE = "I will look it up.\n\n"


def client_of(gateway: Gateway, **options: Any) -> openai.OpenAI:
    client = openai.OpenAI(base_url=gateway.url, api_key="unused", **{"max_retries": 0, **options})
    return gateway.closing.enter_context(client)


def raw_stream(gateway: Gateway, *, expected: dict[str, Any] | None = None, **request: Any) -> Answered:
    """The streamed answer's own bytes, checked against every rule of the wire."""
    body: Any = {"model": MODEL, "messages": ASK, "tools": TOOLS, **request, "stream": True}
    with client_of(gateway).chat.completions.with_streaming_response.create(**body) as response:
        answer = check_stream(b"".join(response.iter_bytes()), **{"tools": NAMES, **(expected or {})})
    for chunk in answer.chunks:
        openai.types.chat.ChatCompletionChunk.model_validate(chunk)
    return answer


def raw_whole(gateway: Gateway, *, expected: dict[str, Any] | None = None, **request: Any) -> Answered:
    body: Any = {"model": MODEL, "messages": ASK, "tools": TOOLS, **request}
    response = client_of(gateway).chat.completions.with_raw_response.create(**body)
    return check_whole(response.content, **{"tools": NAMES, **(expected or {})})
