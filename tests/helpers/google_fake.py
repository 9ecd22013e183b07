"""A Gemini API that knows the rules which the real one answers with a 400, and says what it is told to.

Requests are read by the official SDK's own types, which know no unknown field; answers are made of them. The rules
stand in Google's documentation or in the words of its errors (ai.google.dev/gemini-api/docs/function-calling and
/thought-signatures, ai.google.dev/api/caching#Schema).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from google.genai import types
from jsonschema import Draft202012Validator
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

KEY = "AIza-test-key"
_FIELDS = {
    "contents", "systemInstruction", "tools", "toolConfig", "generationConfig", "safetySettings", "cachedContent"
}  # fmt: skip

Answer = types.GenerateContentResponse


class Refused(Exception):
    """What the API would answer with 400 INVALID_ARGUMENT."""


def text(said: str, *, thought: bool = False, signature: bytes | None = None) -> types.Part:
    return types.Part(text=said, thought=thought or None, thought_signature=signature)


def call(name: str, call_id: str | None = None, signature: bytes | None = None, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=args, id=call_id), thought_signature=signature)


def answer(
    *parts: types.Part,
    reason: str | None = "STOP",
    index: int = 0,
    usage: types.GenerateContentResponseUsageMetadata | None = None,
    message: str | None = None,
) -> Answer:
    """One response with one candidate; `reason` None is a piece of a stream that goes on."""
    candidate = types.Candidate(
        content=types.Content(role="model", parts=list(parts)) if parts else None,
        finish_reason=types.FinishReason(reason) if reason else None,
        finish_message=message,
        index=index,
    )
    return Answer(candidates=[candidate], usage_metadata=usage, model_version="gemini-test-001", response_id="r1")


def usage(prompt: int = 7, candidates: int = 5, thoughts: int = 3, cached: int = 2) -> Any:
    return types.GenerateContentResponseUsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=candidates,
        thoughts_token_count=thoughts,
        cached_content_token_count=cached,
        total_token_count=prompt + candidates + thoughts,
    )


def wire(value: Answer) -> bytes:
    """As it goes over the wire."""
    return value.model_dump_json(by_alias=True, exclude_none=True).encode()


def events(*answers: Answer) -> bytes:
    """As an event stream; Google's ends its lines with CRLF."""
    return b"".join(b"data: " + wire(one) + b"\r\n\r\n" for one in answers)


@dataclass
class Error:
    """An error of the API."""

    status: int
    name: str
    message: str
    delay: str | None = None
    """When to try again, as `30s`."""

    @property
    def body(self) -> dict[str, Any]:
        error: dict[str, Any] = {"code": self.status, "message": self.message, "status": self.name}
        if self.delay is not None:
            error["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": self.delay}]
        return {"error": error}


@dataclass
class FakeGemini:
    """An ASGI app. Each request takes the next of `answers`: a stream's pieces, of which the last is a whole answer."""

    answers: list[list[Answer] | Error | bytes] = field(default_factory=list)
    bodies: list[dict[str, Any]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._app = Starlette(
            routes=[
                Route("/v1beta/models", self._models),
                Route("/v1beta/models/{name}", self._model),
                Route("/v1beta/models/{target}", self._generate, methods=["POST"]),
            ]
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._app(scope, receive, send)

    async def _models(self, request: Request) -> Response:
        self.targets.append(str(request.url.path))
        return JSONResponse({"models": [{"name": "models/gemini-test"}, {"name": "models/gemini-other"}]})

    async def _model(self, request: Request) -> Response:
        return JSONResponse({"name": f"models/{request.path_params['name']}", "displayName": "A model"})

    async def _generate(self, request: Request) -> Response:
        model, _, method = request.path_params["target"].rpartition(":")
        self.targets.append(f"{request.url.path}?{request.url.query}")
        self.headers.append(dict(request.headers))
        if request.headers.get("x-goog-api-key") != KEY:
            return _error(Error(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."))
        body = json.loads(await request.body())
        self.bodies.append(body)
        try:
            check(body, model)
        except (Refused, ValidationError) as error:
            return _error(Error(400, "INVALID_ARGUMENT", str(error)))
        said = self.answers.pop(0) if self.answers else [answer(text("Hello."), usage=usage())]
        if isinstance(said, Error):
            return _error(said)
        if isinstance(said, bytes):
            return Response(said, media_type="text/event-stream" if b"data:" in said else "application/json")
        if method == "streamGenerateContent":
            assert request.url.query == "alt=sse"
            pieces = [events(one) for one in said]
            return StreamingResponse(_each(pieces), media_type="text/event-stream")
        assert method == "generateContent"
        return Response(wire(said[-1]), media_type="application/json")


async def _each(pieces: Iterable[bytes]) -> Any:
    for piece in pieces:
        yield piece


def _error(error: Error) -> Response:
    return JSONResponse(error.body, error.status)


# -- the API's rules -----------------------------------------------------------------------------------------------


def check(body: dict[str, Any], model: str = "gemini-test") -> None:
    """Raises what the API would refuse the request with."""
    if unknown := body.keys() - _FIELDS:
        raise Refused(f"Unknown name {unknown}")
    contents = [types.Content.model_validate(content) for content in body["contents"]]
    if "systemInstruction" in body:
        system = types.Content.model_validate(body["systemInstruction"])
        assert all(part.text for part in system.parts or ())
    types.GenerationConfig.model_validate(body.get("generationConfig", {}))
    tools = [types.Tool.model_validate(tool) for tool in body.get("tools", ())]
    config = types.ToolConfig.model_validate(body.get("toolConfig", {}))
    declared = [one for tool in tools for one in tool.function_declarations or ()]
    names = {one.name for one in declared}
    chosen = config.function_calling_config
    for name in (chosen.allowed_function_names or ()) if chosen else ():
        if name not in names or chosen is None or chosen.mode != types.FunctionCallingConfigMode.ANY:
            raise Refused(f"allowed_function_names: {name}")
    for one in declared:
        assert one.parameters is None
        if one.parameters_json_schema is not None:
            check_json_schema(one.parameters_json_schema, top=True)
    written = body.get("generationConfig", {})
    assert "responseSchema" not in written
    if "responseJsonSchema" in written:
        check_json_schema(written["responseJsonSchema"])
    if not contents:
        raise Refused("contents is not specified")
    _check_turns(contents, signed="gemini-3" in model)


def _check_turns(contents: list[types.Content], *, signed: bool) -> None:
    waiting: list[types.FunctionCall] = []
    for number, content in enumerate(contents):
        if content.role not in {"user", "model"}:
            raise Refused("Please use a valid role: user, model.")
        if not content.parts:
            raise Refused("contents.parts must not be empty.")
        for part in content.parts:
            kinds = part.model_dump(exclude_none=True).keys() - {"thought", "thought_signature"}
            if len(kinds) != 1 or (part.text == "" and not part.thought_signature):
                raise Refused(f"contents[{number}].parts: required oneof field 'data' must have one initialized field")
        answers = [part.function_response for part in content.parts if part.function_response]
        if len(answers) != len(waiting):
            raise Refused("the number of function response parts is not equal to that of function call parts")
        for asked, given in zip(waiting, answers, strict=True):
            if asked.name != given.name or (asked.id or None) != (given.id or None) or given.response is None:
                raise Refused("function response does not match the function call")
        calls = [part for part in content.parts if part.function_call]
        if calls and content.role != "model":
            raise Refused("a function call of the user")
        if calls and number == 0:
            raise Refused("function call turn comes immediately after a user turn or after a function response turn")
        if signed and calls and not calls[0].thought_signature:
            raise Refused("Function call is missing a thought_signature in functionCall parts.")
        waiting = [part.function_call for part in calls if part.function_call]
    if waiting:
        raise Refused("function call without a function response")


_KEYWORDS = {
    "type", "format", "title", "description", "enum", "items", "prefixItems", "minItems", "maxItems", "minimum",
    "maximum", "anyOf", "properties", "additionalProperties", "required",
}  # fmt: skip


def check_json_schema(schema: Any, *, top: bool = False) -> None:
    """The documented keywords of `parametersJsonSchema` and `responseJsonSchema`, and their rules."""
    if isinstance(schema, bool):
        return
    if unknown := schema.keys() - _KEYWORDS:
        raise Refused(f"keywords that do not count: {unknown}")
    Draft202012Validator.check_schema(schema)
    if top and schema.get("type") != "object":
        raise Refused("parameters: schema should be of type object")
    if not set(schema.get("required", ())) <= schema.get("properties", {}).keys():
        raise Refused("required: property is not defined")
    for value in schema.get("enum", ()):
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
            raise Refused("enum: only for strings, not empty, and numbers")
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ()), *schema.get("prefixItems", ())]
    for one in [*inner, schema.get("items", True), schema.get("additionalProperties", True)]:
        check_json_schema(one)
