"""A Gemini API played by an app that speaks OpenAI's: whatever a scripted model can do, it can do behind this face.

Requests keep the API's rules (google_fake.check) or are refused; answers are the official SDK's types. Text comes in
pieces, a call whole and without an id, the first one signed. The model behind it need not obey a forced call.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
from google.genai import types
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from tests.helpers.google_fake import Answer, Refused, check, events, wire

SIGNATURE = base64.b64encode(b"thoughts")
_REASONS = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
_STATUS = {400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 413: "INVALID_ARGUMENT", 422: "INVALID_ARGUMENT"}
_CONFIG = {
    "temperature": "temperature",
    "topP": "top_p",
    "maxOutputTokens": "max_tokens",
    "candidateCount": "n",
    "stopSequences": "stop",
    "seed": "seed",
}


class GeminiFace:
    """The ASGI app. `inner` answers `/v1/chat/completions` and takes tools."""

    def __init__(self, inner: ASGIApp) -> None:
        self._inner = inner
        self._app = Starlette(
            routes=[
                Route("/v1beta/models", self._models),
                Route("/v1beta/models/{target}", self._generate, methods=["POST"]),
            ]
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    async def _ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        transport = httpx.ASGITransport(app=self._inner)
        async with httpx.AsyncClient(transport=transport, base_url="http://inner") as client:
            return await client.request(method, path, json=body)

    async def _models(self, _request: Request) -> Response:
        listed = (await self._ask("GET", "/v1/models")).json()["data"]
        return JSONResponse({"models": [{"name": f"models/{model['id']}"} for model in listed]})

    async def _generate(self, request: Request) -> Response:
        model, _, method = request.path_params["target"].rpartition(":")
        body = json.loads(await request.body())
        try:
            check(body, model)
        except (Refused, ValidationError) as error:
            return JSONResponse({"error": {"code": 400, "message": str(error), "status": "INVALID_ARGUMENT"}}, 400)
        answered = await self._ask("POST", "/v1/chat/completions", chat_of(body, model))
        whole = answered.json()
        if answered.status_code != 200:
            name = _STATUS.get(answered.status_code, "INTERNAL")
            refusal = {"code": answered.status_code, "message": whole["error"]["message"], "status": name}
            return JSONResponse({"error": refusal}, answered.status_code)
        if method == "generateContent":
            return Response(wire(answer_of(whole)), media_type="application/json")

        async def pieces() -> AsyncIterator[bytes]:
            for piece in _pieces(answer_of(whole)):
                yield events(piece)

        return StreamingResponse(pieces(), media_type="text/event-stream")


# -- requests ------------------------------------------------------------------------------------------------------


def chat_of(body: dict[str, Any], model: str) -> dict[str, Any]:
    """A request to Gemini as a chat completion."""
    messages: list[dict[str, Any]] = []
    system = body.get("systemInstruction")
    if system:
        messages.append({"role": "system", "content": "\n\n".join(part["text"] for part in system["parts"])})
    waiting: list[str] = []
    for number, content in enumerate(body["contents"]):
        text = "".join(part["text"] for part in content["parts"] if "text" in part)
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        if calls:
            # By order alone: that is all that there is where no id was given.
            waiting = [f"call_{number}x{place}" for place in range(len(calls))]
            made = [
                {
                    "id": one,
                    "type": "function",
                    "function": {"name": call["name"], "arguments": json.dumps(call["args"])},
                }
                for one, call in zip(waiting, calls, strict=True)
            ]
            messages.append({"role": "assistant", "content": text or None, "tool_calls": made})
        elif results:
            for one, result in zip(waiting, results, strict=True):
                value = next(iter(result["response"].values()))
                messages.append({"role": "tool", "tool_call_id": one, "content": value})
        else:
            messages.append({"role": "assistant" if content["role"] == "model" else "user", "content": text})
    config = body.get("generationConfig", {})
    chat = {"model": model, "messages": messages}
    return chat | {_CONFIG[name]: value for name, value in config.items() if name in _CONFIG} | _tools(body)


def _tools(body: dict[str, Any]) -> dict[str, Any]:
    declared = [one for tool in body.get("tools", ()) for one in tool["functionDeclarations"]]
    if not declared:
        return {}
    tools = []
    for one in declared:
        schema = one.get("parametersJsonSchema") or {"type": "object"}
        function = {"name": one["name"], "description": one.get("description", ""), "parameters": schema}
        tools.append({"type": "function", "function": function})
    mode = body.get("toolConfig", {}).get("functionCallingConfig", {}).get("mode")
    return {"tools": tools, "tool_choice": "none" if mode == "NONE" else "auto"}


# -- answers -------------------------------------------------------------------------------------------------------


def answer_of(whole: dict[str, Any]) -> Answer:
    """A chat completion as Gemini's answer."""
    candidates = []
    for choice in whole["choices"]:
        message = choice["message"]
        parts = [types.Part(text=message["content"])] if message["content"] else []
        for place, call in enumerate(message.get("tool_calls") or ()):
            made = types.FunctionCall(
                name=call["function"]["name"],
                args=json.loads(call["function"]["arguments"]),
            )
            parts.append(types.Part(function_call=made, thought_signature=None if place else SIGNATURE))
        candidates.append(
            types.Candidate(
                content=types.Content(role="model", parts=parts),
                finish_reason=types.FinishReason(_REASONS[choice["finish_reason"]]),
                index=choice["index"],
            )
        )
    usage = whole.get("usage") or {}
    counted = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=usage.get("prompt_tokens"),
        candidates_token_count=usage.get("completion_tokens"),
        total_token_count=usage.get("total_tokens"),
    )
    return Answer(candidates=candidates, usage_metadata=counted, model_version=whole["model"], response_id="r1")


def _pieces(whole: Answer) -> Iterator[Answer]:
    """As a stream: text in pieces of a few characters, and the end with the usage."""
    for candidate in whole.candidates or ():
        content = candidate.content or types.Content(role="model", parts=[])
        for part in content.parts or ():
            said = part.text or ""
            cut = [types.Part(text=said[at : at + 4]) for at in range(0, len(said), 4)] or [part]
            for piece in cut:
                once = types.Candidate(content=types.Content(role="model", parts=[piece]), index=candidate.index)
                yield Answer(candidates=[once], model_version=whole.model_version, response_id=whole.response_id)
    ends = [
        types.Candidate(finish_reason=candidate.finish_reason, index=candidate.index)
        for candidate in whole.candidates or ()
    ]
    yield whole.model_copy(update={"candidates": ends})
