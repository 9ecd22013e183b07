"""Backends with the manners of real engines, in front of a model that can be told how clever it is.

What each engine refuses, ignores and obeys is what was recorded of it: vLLM 0.32 with and without its tool flags,
llama-cpp-python 0.3.36, llama.cpp's own server.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import Request
from starlette.routing import Router
from starlette.types import Message, Receive, Scope, Send

from tests.helpers.chat_answers import chat_answer

HELLO = "Hello there, my good friend."
_MEANT = {"weather": "get_weather", "warm": "get_weather", "time": "get_time", "Add": "add"}
ARGUMENTS: dict[str, dict[str, Any]] = {
    "get_weather": {"city": "Paris"},
    "get_time": {"city": "Tokyo"},
    "add": {"a": 17, "b": 25},
}


class RefusalError(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Said:
    """What the engine answers: text, or calls of its own parser."""

    text: str | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str = "stop"


def last_question(body: dict[str, Any]) -> str:
    content = next(message["content"] for message in reversed(body["messages"]) if message["role"] == "user")
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def meant(body: dict[str, Any]) -> str | None:
    """The tool that the last question is about; the tools may stand in front of it."""
    question = last_question(body)
    found = {word: question.rfind(word) for word in _MEANT}
    last = max(found, key=lambda word: found[word])
    return _MEANT[last] if found[last] >= 0 else None


def instance(schema: dict[str, Any], wanted: str | None) -> Any:
    """A value that fits the schema, as constrained decoding makes one; of several calls the one that is meant."""
    if "anyOf" in schema:
        options = [instance(option, wanted) for option in schema["anyOf"]]
        return next((one for one in options if one.get("name") == (wanted or "respond")), options[0])
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    match schema.get("type"):
        case "object":
            return {name: instance(schema["properties"][name], wanted) for name in schema.get("required", ())}
        case "array":
            return [instance(schema["items"], wanted)]
        case "number" | "integer":
            return 17
    return "Paris"


class Engine:
    """One engine. `obeys`: the syntaxes in which its model can be taught to call (`json`, `hermes`).

    requests: the bodies of all questions so far. dead_after: it answers so many, and then crashes each time.
    """

    models: tuple[str, ...] = ("test-model",)

    def __init__(self, obeys: set[str] | None = None, *, key: str | None = None) -> None:
        self.obeys = obeys or set()
        self.key = key
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[bytes, bytes]] = []

    # -- what differs ------------------------------------------------------------------------------------------------

    def refuse(self, body: dict[str, Any]) -> None:
        """Raises RefusalError for what this engine does not take."""

    def constraint(self, body: dict[str, Any]) -> str | None:
        """The text that this engine's constrained decoding makes; None where nothing constrains."""
        return None

    def native(self, body: dict[str, Any]) -> Said | None:
        """What its own tool parser makes of a request with tools; None for text."""
        return None

    def error(self, status: int, message: str) -> dict[str, Any]:
        return {"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}}

    usage_in_streams = True
    stops = True
    renders = False  # the chat template writes tools

    def usage(self, body: dict[str, Any]) -> dict[str, int]:
        prompt = 70 if self.renders and body.get("tools") else 10
        return {"prompt_tokens": prompt, "completion_tokens": 7, "total_tokens": prompt + 7}

    # -- the model ---------------------------------------------------------------------------------------------------

    def text(self, body: dict[str, Any]) -> str:
        prompt = " ".join(str(message.get("content")) for message in body["messages"])
        name = meant(body)
        if name is not None and "get_weather" in prompt:
            call = json.dumps({"name": name, "arguments": ARGUMENTS[name]})
            if "hermes" in self.obeys and "<tool_call>" in prompt:
                return f"<tool_call>\n{call}\n</tool_call>"
            if "json" in self.obeys and '"tool_calls"' in prompt:
                return f'```json\n{{"tool_calls": [{call}]}}\n```'
        return HELLO

    def say(self, body: dict[str, Any]) -> Said:
        self.refuse(body)
        if body.get("tools"):
            said = self.native(body)
            if said is not None:
                return said
        text = self.constraint(body) or self.text(body)
        stop = body.get("stop")
        for word in stop if self.stops and stop else ():
            text = text.partition(word)[0]
        return Said(text)

    # -- the server --------------------------------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await Router().lifespan(scope, receive, send)
            return
        raw = await Request(scope, receive).body()
        headers = dict(scope["headers"])
        self.headers.append(headers)
        if self.key is not None and headers.get(b"authorization") != b"Bearer " + self.key.encode():
            shown = headers.get(b"authorization", b"").decode()
            await self._json(send, 401, self.error(401, f"Incorrect API key provided: {shown}"))
        elif scope["path"] == "/v1/models":
            models = [{"id": name, "object": "model"} for name in self.models]
            await self._json(send, 200, {"object": "list", "data": models})
        elif scope["path"] == "/v1/chat/completions":
            body = json.loads(raw)
            self.requests.append(body)
            await self._chat(send, body)
        else:
            await self._json(send, 404, {"detail": "Not Found"})

    async def _chat(self, send: Send, body: dict[str, Any]) -> None:
        try:
            said = self.say(body)
        except RefusalError as error:
            await self._json(send, error.status, self.error(error.status, str(error)))
            return
        message: dict[str, Any] = {"content": said.text, **({"tool_calls": said.calls} if said.calls else {})}
        usage = self.usage(body) if self.usage_in_streams or not body.get("stream") else None
        kind, out = chat_answer(body, message, finish=said.finish_reason, usage=usage)
        await self._send(send, 200, kind.encode(), out)

    async def _json(self, send: Send, status: int, value: Any) -> None:
        await self._send(send, status, b"application/json", json.dumps(value).encode())

    async def _send(self, send: Send, status: int, kind: bytes, body: bytes) -> None:
        message: Message = {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind)]}
        await send(message)
        await send({"type": "http.response.body", "body": body})


def schema_of(response_format: Any) -> dict[str, Any] | None:
    match response_format:
        case {"type": "json_schema", "json_schema": {"schema": dict() as schema}}:
            return schema
    return None


class Vllm(Engine):
    """Without --enable-auto-tool-choice and --tool-call-parser."""

    def refuse(self, body: dict[str, Any]) -> None:
        match body.get("tool_choice") if body.get("tools") else "none":
            case "none":
                pass
            case "required":
                raise RefusalError(400, 'tool_choice="required" requires --tool-call-parser to be set')
            case {"function": {"name": name}}:
                raise RefusalError(400, f'tool_choice=function "{name}" requires --tool-call-parser to be set')
            case _:
                wants = "--enable-auto-tool-choice and --tool-call-parser"
                raise RefusalError(400, f'"auto" tool choice requires {wants} to be set')

    def constraint(self, body: dict[str, Any]) -> str | None:
        response_format = body.get("response_format")
        schema = schema_of(response_format) or (body.get("structured_outputs") or {}).get("json")
        match response_format:
            case {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": inner}}:
                schema = inner
            case {"type": "structural_tag", "format": {"type": "triggered_tags", "at_least_one": True, "tags": tags}}:
                chosen = next((tag for tag in tags if f'"{meant(body)}"' in tag["begin"]), tags[0])
                arguments = json.dumps(instance(chosen["content"]["json_schema"], None))
                return f"{chosen['begin']}{arguments}{chosen['end']}"
            case {"type": "json_object"}:
                return '{"weather": "sunny"}'  # JSON it is, but the schema is ignored
        return json.dumps(instance(schema, meant(body))) if schema else None


class VllmHermes(Vllm):
    """With the flags, and a model that its parser was made for."""

    models = ("Qwen/Qwen2.5-0.5B-Instruct",)
    renders = True

    def refuse(self, body: dict[str, Any]) -> None:
        pass

    def native(self, body: dict[str, Any]) -> Said | None:
        choice = body.get("tool_choice", "auto")
        name = choice["function"]["name"] if isinstance(choice, dict) else meant(body)
        if choice == "none" or name is None:
            return None
        function = {"name": name, "arguments": json.dumps(ARGUMENTS[name])}
        # Named calls end with stop there.
        finish_reason = "stop" if isinstance(choice, dict) else "tool_calls"
        return Said(None, [{"id": "chatcmpl-tool-1", "type": "function", "function": function}], finish_reason)


class VllmWithoutItsParser(VllmHermes):
    """Tools are shown to the model, and its calls stay in the text."""

    def native(self, body: dict[str, Any]) -> Said | None:
        call = {"name": meant(body), "arguments": ARGUMENTS[meant(body) or "add"]}
        return Said(f"<tool_call>\n{json.dumps(call)}\n</tool_call>")


class LlamaServer(Engine):
    """llama.cpp's own server, with a template that ignores tools."""

    def refuse(self, body: dict[str, Any]) -> None:
        kind = (body.get("response_format") or {}).get("type", "text")
        if kind not in {"text", "json_object", "json_schema"}:
            raise RefusalError(400, f'response_format type must be one of "text" or "json_object", but got: {kind}')

    def constraint(self, body: dict[str, Any]) -> str | None:
        if "grammar" in body:
            return str(json.loads(body["grammar"].partition("::=")[2]))
        response_format = body.get("response_format") or {}
        schema = schema_of(response_format) or response_format.get("schema")
        return json.dumps(instance(schema, meant(body)), indent=2) if schema else None


class LlamaCppPython(LlamaServer):
    """Refuses by errors of status 500, knows json_object with a schema and grammars, and never counts a stream."""

    usage_in_streams = False

    def refuse(self, body: dict[str, Any]) -> None:
        kind = (body.get("response_format") or {}).get("type", "text")
        if kind not in {"text", "json_object"}:
            raise RefusalError(500, f"1 validation error: Input should be 'text' or 'json_object', 'input': '{kind}'")
        for message in body["messages"]:
            if message["role"] == "developer" or (message["role"] == "assistant" and message.get("content") is None):
                raise RefusalError(500, "7 validation errors: {'type': 'literal_error', 'loc': ('body', 'messages')}")

    def native(self, body: dict[str, Any]) -> Said | None:
        """Only a named tool is called, by force."""
        choice = body.get("tool_choice")
        if not isinstance(choice, dict):
            return None
        name = choice["function"]["name"]
        function = {"name": name, "arguments": json.dumps(ARGUMENTS[name])}
        return Said(None, [{"id": "call__0", "type": "function", "function": function}], "tool_calls")


class TextOnly(Engine):
    """Knows no field but the common ones, no system messages, and no stop strings."""

    stops = False
    models = ()

    def refuse(self, body: dict[str, Any]) -> None:
        for name in ("tools", "response_format", "structured_outputs", "grammar", "stream_options"):
            if name in body:
                raise RefusalError(422, f"Extra inputs are not permitted: {name}")
        if any(message["role"] not in {"user", "assistant"} for message in body["messages"]):
            raise RefusalError(400, "System role not supported")
