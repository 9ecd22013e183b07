"""An existing chat app that knows only text, and the one line that gives it OpenAI tool calls.

Run:  python examples/existing_app.py            (serves http://127.0.0.1:8000/v1)
Then: python examples/agent_loop.py --base-url http://127.0.0.1:8000/v1 "What is the weather in Paris?"
"""

import json
import re
import sys
from collections.abc import Iterator

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from toolcall_middleware import ToolCallMiddleware

CALL = '```json\n{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}]}\n```'


def write(messages: list[dict[str, str]]) -> str:
    """Stands in for a model, which would write such text by itself. Put yours here."""
    result = re.search(r"\d+ degrees[\w ,]*", messages[-1]["content"])
    if result:
        return f"In Paris it is {result[0]}."
    if "get_weather" in messages[0]["content"]:  # the middleware has put the client's tools into the prompt
        return f"Let me look.\n\n{CALL}"
    return "I can only talk."


def sse(text: str) -> Iterator[str]:
    """The text word by word, as a chat-completions stream."""
    deltas: list[dict[str, str]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in re.findall(r"\S+\s*|\s+", text)]
    for delta in [*deltas, {}]:
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
        chunk = {"id": "chat-1", "object": "chat.completion.chunk", "created": 1, "model": "toy", "choices": [choice]}
        yield f"data: {json.dumps(chunk)}\n\n"
    yield "data: [DONE]\n\n"


async def chat(request: Request) -> Response:
    """A plain text endpoint: it has never heard of tools."""
    body = await request.json()
    text = write(body["messages"])
    if body.get("stream"):
        return StreamingResponse(sse(text), media_type="text/event-stream")
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return JSONResponse(
        {"id": "chat-1", "object": "chat.completion", "created": 1, "model": "toy", "choices": [choice]}
    )


app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])
app.add_middleware(ToolCallMiddleware)  # this is all


if __name__ == "__main__":
    uvicorn.run(app, port=int(sys.argv[1]) if len(sys.argv) > 1 else 8000)
