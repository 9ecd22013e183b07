"""Backends as real engines are: what they refuse and in which words, what they ignore in silence, and which constraints
they keep to. Refusals and native answers are recorded ones (backends_data/<engine>.jsonl.gz, a line for each exchange).

The model behind them wants no tool: it answers in prose, unless a constraint that the engine keeps makes it call.
"""

from __future__ import annotations

import functools
import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.helpers.chat_answers import chat_answer
from tests.helpers.driven import Driven
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

DATA = Path(__file__).parent / "backends_data"
PROSE = "I would rather talk about the weather in general."
ARGUMENTS = {"city": "Paris"}
NAMES = ("vllm", "vllm_hermes", "llama_cpp_python", "llama_server")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One exchange with a real engine. `request` is None where it was not kept, or no JSON."""

    case: str
    status: int
    content_type: str
    request: Any
    response: str


@functools.cache
def recorded(engine: str) -> dict[str, Recorded]:
    """All exchanges with an engine, by the name of the case."""
    with gzip.open(DATA / f"{engine}.jsonl.gz", "rt", encoding="utf-8", newline="") as lines:
        rows = [Recorded(**json.loads(line)) for line in lines]
    return {row.case: row for row in rows}


@dataclass
class Engine:
    """An engine's front: `refusal` gives the recorded case that answers a body, or None; `keeps` the kinds of
    constraints that it keeps to, of those that it does not refuse.
    """

    name: str
    refusal: Callable[[dict[str, Any]], str | None]
    keeps: frozenset[str]
    prompt_tokens: Callable[[dict[str, Any]], int] = lambda _body: 300
    bodies: list[dict[str, Any]] = field(default_factory=list)

    def answer(self, raw: bytes) -> tuple[int, str, bytes]:
        """(status, content type, body)."""
        body = json.loads(raw)
        self.bodies.append(body)
        case = self.refusal(body)
        if case is not None:
            row = recorded(self.name)[case]
            return row.status, row.content_type, row.response.encode()
        kept = kind_of(body) if kind_of(body) in self.keeps else None
        return 200, *self.said(body, constrained(body, kept) if kept else PROSE)

    def said(self, body: dict[str, Any], text: str) -> tuple[str, bytes]:
        """(content type, body) of the answer with this text."""
        prompt = self.prompt_tokens(body)
        usage = {"prompt_tokens": prompt, "completion_tokens": 9, "total_tokens": prompt + 9}
        return chat_answer(body, {"content": text}, usage=usage)


def kind_of(body: dict[str, Any]) -> str | None:
    """The kind of constraint that a body asks for."""
    form = body.get("response_format") or {}
    kinds = {"json_schema": "response_format", "json_object": "llama_cpp", "structural_tag": "structural_tag"}
    if form.get("type") in kinds:
        return kinds[form["type"]] if form["type"] != "json_object" or "schema" in form else "json_object"
    return next((name for name in ("structured_outputs", "grammar", "guided_json") if name in body), None)


def constrained(body: dict[str, Any], kind: str) -> str:
    """What a model that is held to the constraint writes: one call of the first tool."""
    form = body.get("response_format") or {}
    if kind == "structural_tag":
        tag = form["format"]["tags"][0]
        return str(tag["begin"] + json.dumps(ARGUMENTS) + tag["end"])
    schema = {
        "response_format": lambda: form["json_schema"]["schema"],
        "llama_cpp": lambda: form["schema"],
        "structured_outputs": lambda: body["structured_outputs"]["json"],
    }[kind]()
    entry = schema["properties"]["tool_calls"]["items"]
    entry = entry["anyOf"][0] if "anyOf" in entry else entry
    return json.dumps({"tool_calls": [{"name": entry["properties"]["name"]["const"], "arguments": ARGUMENTS}]})


# -- the engines -----------------------------------------------------------------------------------------------------


def vllm() -> Engine:
    """Without `--enable-auto-tool-choice` and `--tool-call-parser`."""

    def refusal(body: dict[str, Any]) -> str | None:
        choice = body.get("tool_choice", "auto")
        if not body.get("tools") or choice == "none":
            return None
        if isinstance(choice, dict):
            return "tools_choice_named_nonstream"
        return "tools_auto_explicit" if choice == "auto" else "tools_choice_required_nonstream"

    return Engine("vllm", refusal, frozenset({"response_format", "structured_outputs", "structural_tag"}))


def vllm_hermes() -> Engine:
    """With them: calls come out natively where they must, and stay in the text as JSON where they may."""

    def refusal(body: dict[str, Any]) -> str | None:
        choice = body.get("tool_choice", "auto")
        if not body.get("tools") or choice == "none":
            return None
        streamed = "stream" if body.get("stream") else "nonstream"
        if choice == "auto":
            return f"tools_{streamed}"
        return f"tools_choice_{'named' if isinstance(choice, dict) else 'required'}_{streamed}"

    return Engine("vllm_hermes", refusal, frozenset({"response_format", "structured_outputs", "structural_tag"}))


def llama_cpp_python() -> Engine:
    """Validation errors are 500; tools are ignored unless one is named; streams have no usage."""

    def refusal(body: dict[str, Any]) -> str | None:
        if any(message["role"] == "tool" or message["content"] is None for message in body["messages"]):
            return "history_tool_roles_with_tools"
        form = (body.get("response_format") or {}).get("type")
        if form in {"json_schema", "structural_tag"}:
            return f"response_format_{'json_schema_stream' if form == 'json_schema' else 'structural_tag_format'}"
        if body.get("tools") and isinstance(body.get("tool_choice"), dict):
            return "tools_choice_named_stream" if body.get("stream") else "tools_choice_named_nonstream"
        return None

    return Engine("llama_cpp_python", refusal, frozenset({"llama_cpp", "grammar"}), lambda _body: 43)


def llama_server() -> Engine:
    """Tools are ignored by a template that does not know them; a structural tag is refused."""

    def refusal(body: dict[str, Any]) -> str | None:
        form = (body.get("response_format") or {}).get("type")
        return "response_format_structural_tag_format" if form == "structural_tag" else None

    return Engine("llama_server", refusal, frozenset({"response_format", "llama_cpp", "grammar"}), lambda _body: 43)


def deaf() -> Engine:
    """Takes everything and keeps to nothing, as many proxies do."""
    return Engine("", lambda _body: None, frozenset())


# -- a client --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes


def ask(engine: Engine, memory: BackendMemory, body: dict[str, Any], **settings: Any) -> Answered:
    """One request through the exchange, as a host drives it. Raises ToolCallError where nothing has left."""
    exchange = Driven(Settings(**settings), memory)
    raw: bytes | None = exchange.on_request(json.dumps(body).encode())
    assert raw is not None
    while raw is not None:
        status, kind, data = engine.answer(raw)
        exchange.on_response_start(status, [(b"content-type", kind.encode())])
        out = exchange.feed(data) + exchange.finish()
        raw = exchange.take_next()
        if raw is None:
            start = exchange.started
            assert start is not None
            return Answered(start.status or status, {"content-type": kind, **(start.headers or {})}, out)
        assert not out
    raise AssertionError
