"""Does the backend's constrained decoding constrain? It is asked for words, under a constraint that allows none.

What is asked for is what the middleware would ask for; only the prompt is another: it names no tool and no JSON. Where
the constrained call comes all the same, the constraint has made it.
"""

from __future__ import annotations

import json
from typing import Any

from ...exchange import Ask, Exchange, Request
from ...formats import registry
from ...formats.base import ParserOptions
from ...model import Tool, ToolSet
from ...parsing.events import CallArgs, CallEnd, CallStart
from ...settings import OPTIONS, Settings
from ...upstream.backend_memory import BackendMemory
from .answers import Answer
from .asking import Asker
from .findings import Finding, Verdict

TOKENS = 96
_NAME = "zq_probe"
_CODES = ["k7w", "m3x"]
_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {"code": {"enum": _CODES}},
    "required": ["code"],
    "additionalProperties": False,
}
_TOOL = {"type": "function", "function": {"name": _NAME, "parameters": _PARAMETERS}}
_WORDS = [{"role": "user", "content": "Say hello to me in one short sentence. Write plain words, nothing else."}]

# One fixed call, in the notation of llama.cpp's grammars. Nothing that `constrain` asks for, but good to know.
_GBNF = 'root ::= "{\\"tool_calls\\": [{\\"name\\": \\"zq_probe\\", \\"arguments\\": {\\"code\\": \\"k7w\\"}}]}"'

_ABOUT = {
    "response_format": "json_schema",
    "llama_cpp": "json_object with a schema (llama.cpp)",
    "structured_outputs": "structured_outputs.json (vLLM)",
    "structural_tag": "structural_tag",
}


def kinds() -> list[tuple[str, str, str, dict[str, Any]]]:
    """(key, what, format, the request's fields) of each constraint that there is to ask for."""
    found: list[tuple[str, str, str, dict[str, Any]]] = []
    for kind in OPTIONS["constrain"].allowed.split(", "):
        if kind in {"auto", "off"}:
            continue
        # In tags of a format's own where there are such, in which several calls and text between them stay possible.
        formats = ("json", "hermes") if kind == "structural_tag" else ("json",)
        for fmt in formats:
            what = _ABOUT.get(kind, kind) + (", calls in tags" if fmt != "json" else "")
            key = f"constrain.{kind}" + ("" if fmt == "json" else f".{fmt}")
            found.append((key, what, fmt, _fields(kind, fmt)))
    return [*found, ("constrain.grammar", "grammar (llama.cpp's GBNF)", "json", {"grammar": _GBNF})]


def _fields(kind: str, fmt: str) -> dict[str, Any]:
    body: dict[str, Any] = {"model": "m", "messages": _WORDS, "tools": [_TOOL], "tool_choice": "required"}
    # One call is enough: a model that is held to a list of them may go on and on.
    body["parallel_tool_calls"] = False
    settings = Settings(constrain=kind, format=fmt, special_tokens="off")
    action = Exchange(settings, BackendMemory()).receive(Request(json.dumps(body).encode()))[0]
    sent = action.body if isinstance(action, Ask) else b"{}"
    return {name: value for name, value in json.loads(sent).items() if name not in {"model", "messages"}}


async def ask(asker: Asker, key: str, what: str, fields: dict[str, Any]) -> list[Finding]:
    """One kind. `fields` are those of `kinds`."""
    answer = await asker.ask(_WORDS, tokens=TOKENS, **fields)
    return [Finding(key, what, *_judge(answer))]


def _judge(answer: Answer) -> tuple[Verdict, str]:
    if not answer.ok:
        return answer.verdict, answer.fault
    tools = ToolSet.of([Tool(_NAME, "", _PARAMETERS)])
    parser = registry.get("auto").parser(tools, ParserOptions())
    events = [*parser.feed(answer.text), *parser.finish(cut=answer.finish_reason == "length")]
    if not any(isinstance(event, CallStart) for event in events):
        if _is_json(answer.text):
            return Verdict.NO, "the answer is JSON, but the schema is ignored in silence"
        return Verdict.NO, "ignored in silence"
    arguments = ""
    for event in events:
        if isinstance(event, CallArgs):
            arguments += event.text
        elif isinstance(event, CallEnd):
            # The first call tells.
            if not event.complete:
                return Verdict.PARTLY, "the answer keeps to it, but found no end"
            break
    if _code(arguments) in _CODES:
        return Verdict.YES, ""
    return Verdict.PARTLY, "a call came, but its arguments are not those of the schema"


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict | list)
    except ValueError:
        return False


def _code(arguments: str) -> Any:
    try:
        value = json.loads(arguments)
    except ValueError:
        return None
    return value.get("code") if isinstance(value, dict) else None
