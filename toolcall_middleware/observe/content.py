"""The messages of an exchange, as OpenTelemetry's conventions for generative AI write it: messages of parts.

Only for spans, and only where an operator asks for content (`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`).
Source: https://opentelemetry.io/docs/specs/semconv/gen-ai/gen-ai-spans/ (`gen_ai.input.messages` and the like).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..wire.chat_answer import ChatAnswer
from ..wire.openai import encode, read_value
from .report import Row

Message = dict[str, Any]


def content_of(rows: Sequence[Row]) -> dict[str, str]:
    """The attributes of a span that hold content, as JSON, of an exchange with these rows."""
    asked = next((read_value(body.encode()) for body in _said(rows, "request")), None)
    request = asked if isinstance(asked, dict) else {}
    given = {
        "gen_ai.input.messages": [_input(message) for message in _dicts(request.get("messages"))],
        "gen_ai.tool.definitions": [_tool(tool) for tool in _dicts(request.get("tools"))],
        "gen_ai.output.messages": answers_of(rows),
    }
    return {name: encode(value).decode() for name, value in given.items() if value}


def answers_of(rows: Sequence[Row]) -> list[Message]:
    """The messages of an exchange's answer, one a choice: `parts` with their `type`, and `finish_reason`."""
    steps = [row for row in rows if row["kind"] == "client" and "step" in row]
    if steps:
        return _stepped(steps)
    answer = ChatAnswer.of("".join(_said(rows, "client")).encode("utf-8", "replace"))
    found = []
    for _, choice in sorted(answer.choices.items()):
        calls = [_call(call.id, call.name, call.arguments) for call in choice.calls]
        found.append(_output(choice.reasoning, choice.text, calls, choice.finish_reason))
    return found


def _said(rows: Sequence[Row], kind: str) -> list[str]:
    return [str(row.get("data", "")) for row in rows if row["kind"] == kind]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _input(message: Message) -> Message:
    role, content = str(message.get("role")), message.get("content")
    if role == "tool":
        part = {"type": "tool_call_response", "id": message.get("tool_call_id"), "response": content}
        return {"role": role, "parts": [part]}
    return {"role": role, "parts": [*_texts(content), *_calls(_dicts(message.get("tool_calls")))]}


def _texts(content: Any) -> list[Message]:
    if isinstance(content, str):
        return [{"type": "text", "content": content}] if content else []
    # Content that is not text keeps its form.
    return [
        {"type": "text", "content": part["text"]} if isinstance(part.get("text"), str) else part
        for part in _dicts(content)
    ]


def _calls(entries: Sequence[dict[str, Any]]) -> list[Message]:
    found = []
    for entry in entries:
        kind = "custom" if isinstance(entry.get("custom"), dict) else "function"
        inner = entry.get(kind)
        inner = inner if isinstance(inner, dict) else {}
        arguments = inner.get("input" if kind == "custom" else "arguments")
        found.append(_call(entry.get("id"), inner.get("name"), arguments))
    return found


def _call(call_id: Any, name: Any, arguments: Any) -> Message:
    if isinstance(arguments, str) and (read := read_value(arguments.encode("utf-8", "replace"))) is not None:
        arguments = read
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    inner = tool.get("function")
    return {"type": tool.get("type", "function"), **(inner if isinstance(inner, dict) else {})}


def _output(reasoning: str, text: str, calls: list[Message], reason: Any) -> Message:
    thoughts = [{"type": "reasoning", "content": reasoning}] if reasoning else []
    return {"role": "assistant", "parts": [*thoughts, *_texts(text), *calls], "finish_reason": reason or ""}


def _stepped(steps: Sequence[Row]) -> list[Message]:
    """The message of an answer that was recorded in steps."""
    texts: dict[str, list[str]] = {"reasoning": [], "text": []}
    calls: dict[int, dict[str, Any]] = {}
    written: dict[int, list[str]] = {}
    reason = None
    for row in steps:
        match row["step"]:
            case "call":
                calls[row["index"]] = row
            case "arguments":
                written.setdefault(row["index"], []).append(row["text"])
            case "finish":
                reason = row["reason"]
            case kind if kind in texts:
                texts[kind].append(row["text"])
    called = [_call(call["id"], call["name"], "".join(written.get(index, ()))) for index, call in calls.items()]
    return [_output("".join(texts["reasoning"]), "".join(texts["text"]), called, reason)]
