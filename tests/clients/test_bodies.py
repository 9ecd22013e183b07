"""Request bodies as real clients send them, byte for byte, through the middleware to a backend that refuses much."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import MARK, write_calls
from tests.helpers.stream_rules import Answered, check_stream, check_whole, same_answer

from .common import need

if TYPE_CHECKING:
    from .conftest import Gateway, OpenGateway

httpx = need("httpx")
chat_types = need("openai.types.chat")

BODIES = sorted((Path(__file__).parent.parent / "clients_data").glob("*.json"))
ARGUMENTS = {"city": "Paris", "text": 'a "quoted" </tool_call> ```json\n{"x": [1, null]} \N{SNOWMAN}'}
PROSE = "Let me see.\n\n"
# Tools and messages become text. A stop string could cut a call; how the backend answers is the middleware's choice.
TRANSLATED = {"messages", "tools", "tool_choice", "parallel_tool_calls", "stop", "stream", "stream_options"}
TRANSLATED |= {"response_format"}


def test_bodies_are_there() -> None:
    assert len(BODIES) == 20


def post(gateway: Gateway, raw: bytes) -> Any:
    headers = {"content-type": "application/json"}
    return httpx.post(f"{gateway.url}/chat/completions", content=raw, headers=headers, timeout=20)


def ask(gateway: Gateway, raw: bytes, **expected: Any) -> Answered:
    """The answer to a body as it is, checked against every rule and the OpenAI SDK's own types."""
    body = json.loads(raw)
    response = post(gateway, raw)
    assert response.status_code == 200, response.text
    expected = {"tools": {tool["function"]["name"] for tool in body["tools"]}, "model": body["model"], **expected}
    if not body.get("stream"):
        chat_types.ChatCompletion.model_validate_json(response.content, strict=True)
        return check_whole(response.content, **expected)
    assert response.headers["content-type"].startswith("text/event-stream")
    asked = bool((body.get("stream_options") or {}).get("include_usage"))
    answer = check_stream(response.content, include_usage=asked, **expected)
    for chunk in answer.chunks:
        chat_types.ChatCompletionChunk.model_validate_json(json.dumps(chunk), strict=True)
    return answer


def other_way(raw: bytes) -> bytes:
    """The same request, whole where it was streamed and the other way round."""
    body = json.loads(raw)
    body["stream"] = not body.get("stream")
    if not body["stream"]:
        body.pop("stream_options", None)
    return json.dumps(body).encode()


def offered(body: dict[str, Any]) -> str:
    """The name that has to be called: the named one, else the first."""
    choice = body.get("tool_choice")
    names = [tool["function"]["name"] for tool in body["tools"]]
    return str(choice["function"]["name"] if isinstance(choice, dict) else names[0])


def fitting_call(body: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """A call that has to be made. Of a tool with `strict: true`, whose schema is kept, it fits."""
    name = offered(body)
    tool = next(tool["function"] for tool in body["tools"] if tool["function"]["name"] == name)
    return name, example_of(tool["parameters"], tool["parameters"]) if tool.get("strict") else ARGUMENTS


def example_of(schema: dict[str, Any], root: dict[str, Any]) -> Any:
    """A value that fits a schema as SDKs write it."""
    if "$ref" in schema:
        return example_of(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    if options := schema.get("anyOf"):
        return example_of(options[-1], root)
    if "enum" in schema or "const" in schema:
        return schema.get("const", (schema.get("enum") or [None])[0])
    match schema.get("type"):
        case "object":
            return {name: example_of(inner, root) for name, inner in schema.get("properties", {}).items()}
        case "array":
            return []
        case "integer" | "number":
            return 3
        case "null":
            return None
        case kind:
            return kind == "boolean" or "text"


@pytest.mark.parametrize("path", BODIES, ids=lambda path: path.stem)
def test_body_gets_a_call_streamed_and_whole(open_gateway: OpenGateway, format_name: str, path: Path) -> None:
    raw = path.read_bytes()
    name, arguments = fitting_call(json.loads(raw))
    text = PROSE + write_calls(format_name, (name, arguments))
    gateway = open_gateway(lambda _body: text, format=format_name)
    answers = [ask(gateway, sent) for sent in (raw, other_way(raw))]
    same_answer(*answers)
    for answer in answers:
        assert [(call.name, call.parsed) for call in answer.only.calls] == [(name, arguments)]
        assert (answer.only.content or "").strip() == PROSE.strip()


@pytest.mark.parametrize("path", BODIES, ids=lambda path: path.stem)
def test_body_reaches_the_backend_as_text(open_gateway: OpenGateway, format_name: str, path: Path) -> None:
    raw = path.read_bytes()
    body = json.loads(raw)
    gateway = open_gateway(lambda _body: write_calls(format_name, fitting_call(body)), format=format_name)
    ask(gateway, raw)
    seen = gateway.backend.last
    # Every tool is presented, every text of the client is still there, and every result can be read.
    for tool in body["tools"]:
        assert tool["function"]["name"] in seen.text
    for message in body["messages"]:
        content = message.get("content")
        parts = [part["text"] for part in content] if isinstance(content, list) else [content or ""]
        wanted = MARK.findall(" ".join(parts)) if message["role"] == "tool" else parts
        assert [part for part in wanted if part not in seen.text] == []
    # What a text backend knows goes on as it was: limits, sampling, fields that nobody knows.
    plain = {key: value for key, value in body.items() if key not in TRANSLATED}
    assert {key: seen.body.get(key) for key in plain} == plain


@pytest.mark.parametrize("path", BODIES, ids=lambda path: path.stem)
def test_body_may_be_answered_in_text_where_no_call_is_due(
    open_gateway: OpenGateway, format_name: str, path: Path
) -> None:
    raw = path.read_bytes()
    text = "Nothing to call: `<b>` & {not: json} \N{SNOWMAN}\n\n1 < 2"
    gateway = open_gateway(lambda _body: text, format=format_name)
    if json.loads(raw).get("tool_choice", "auto") == "auto":
        answer = ask(gateway, raw)
        assert (answer.only.content, answer.only.finish_reason) == (text, "stop")
    else:
        response = post(gateway, raw)
        assert (response.status_code, response.json()["error"]["code"]) == (422, "tool_choice_not_satisfied")
