"""A backend for `mode=auto`: what it says of itself, whether its template renders tools, whether it parses calls.

Its model calls the first tool that it is shown, whichever way it is shown it, unless it is told only to talk.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from .chat_answers import chat_answer
from .fakes import write_calls

NO_PARSER = '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
"""vLLM's sentence."""
PROSE = "It is sunny."
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "Does it.",
        "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    },
}


@dataclass
class AutoBackend:
    """caps: what `/props` says of tools; None where there is no such path, as everywhere but at llama.cpp.

    renders: the template writes the tools into the prompt. parses: the model's calls leave as calls, not as text.
    counts: answers say how long they are. refusal: what a request with tools is answered. talks: the model only talks.
    """

    caps: bool | None = None
    renders: bool = True
    parses: bool = True
    counts: bool = True
    refusal: str | None = None
    talks: bool = False
    bodies: list[dict[str, Any]] = field(default_factory=list)
    asked_props: int = 0

    def __post_init__(self) -> None:
        routes = [Route("/v1/chat/completions", self._chat, methods=["POST"])]
        if self.caps is not None:
            routes.append(Route("/props", self._props, methods=["GET"]))
        self._app = Starlette(routes=routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The requests of clients, without those that only look for evidence."""
        return [body for body in self.bodies if body.get("max_tokens") != 1]

    @property
    def looked(self) -> list[dict[str, Any]]:
        """The requests that only look for evidence."""
        return [body for body in self.bodies if body.get("max_tokens") == 1]

    async def _props(self, _request: Request) -> Response:
        self.asked_props += 1
        return JSONResponse({"chat_template": "{{ messages }}", "chat_template_caps": {"supports_tools": self.caps}})

    async def _chat(self, request: Request) -> Response:
        body = await request.json()
        self.bodies.append(body)
        tools = body.get("tools")
        if tools and self.refusal is not None:
            error = {"message": self.refusal, "type": "BadRequestError", "param": None, "code": 400}
            return JSONResponse({"error": error}, 400)
        prompt = " ".join(str(message["content"]) for message in body["messages"])
        if tools and self.renders:
            prompt += json.dumps(tools)
        message = self._message(body, prompt)
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        if body.get("max_tokens") == 1:
            message, finish = {"role": "assistant", "content": "I"}, "length"
        length = 20 + len(prompt) // 4  # a template writes more than the messages
        usage = {"prompt_tokens": length, "completion_tokens": 1, "total_tokens": length + 1}
        kind, answer = chat_answer(body, message, finish=finish, usage=usage if self.counts else None)
        return Response(answer, media_type=kind)

    def _message(self, body: dict[str, Any], prompt: str) -> dict[str, Any]:
        if self.talks or '"f"' not in prompt:
            return {"role": "assistant", "content": PROSE}
        if not (body.get("tools") and self.renders):
            return {"role": "assistant", "content": write_calls("json", ("f", {"x": 3}))}
        if not self.parses:
            return {"role": "assistant", "content": write_calls("hermes", ("f", {"x": 3}))}
        call = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"x": 3}'}}
        return {"role": "assistant", "content": None, "tool_calls": [call]}
