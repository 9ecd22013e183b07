"""What to ask of the backend's constrained decoding: the ways to ask for it, the best one first.

A backend that refuses a way of asking is asked in the next one, or without, and remembered for a while; so is one that
ignores it (backend_memory.py).
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..formats.base import Tag, ToolFormat
from ..json_schema.compact import calls_schema, either_schema
from ..json_schema.grammars.plain_regex import json_safe
from ..json_schema.grammars.text import with_grammar
from ..json_schema.loosen import BOOLEANS, without
from ..json_schema.walk import changed
from ..model import Tool
from ..request.parse import ChatRequest
from ..settings import Settings
from ..wire import openai
from .backend_memory import BackendMemory


@dataclass(frozen=True, slots=True)
class ConstraintRequest:
    """One way of asking for a constraint: the setting's name for it, and the request's fields."""

    kind: str
    fields: dict[str, Any]
    bare: bool = False
    """What must come is bare JSON, `{"tool_calls": [...]}`, which is not the format's own syntax."""


Change = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Makes another schema of a schema."""


def constraint_requests(
    chat: ChatRequest, fmt: ToolFormat, settings: Settings, memory: BackendMemory, *, change: Change | None = None
) -> list[ConstraintRequest]:
    """How to hold the backend to the format, the best way first; the next one is for when it is refused or ignored.

    change: what to make of the schemas of the tools and of the client's own answer first.
    `required` and named tools are constrained as a whole answer. Under `auto` a call is free to come or not, and only
    the arguments of tools with `strict: true` or a grammar are held, where the syntax has tags that can trigger it.
    """
    tools = chat.callable_tools.tools
    if settings.constrain == "off" or not tools:
        return []
    strict = any(tool.strict or tool.grammar for tool in tools)
    answer = answer_schema(chat)
    if not chat.choice.must_call and not strict and answer is None:
        return []
    if asks_llama_cpp_for_text(settings):
        change = functools.partial(_known_to_llama_cpp, change=change)
    if change is not None and answer is not None:
        answer = change(answer)
    in_json = _held(tools, change, raw=False)
    own = fmt.constraint(in_json, chat.choice)
    tags = own.tags if own is not None else ()
    if any(tool.grammar for tool in tools) and tags and all(tag.style for tag in tags):
        raw = fmt.constraint(_held(tools, change, raw=True), chat.choice)
        tags = raw.tags if raw is not None else tags
    found = [_tagged(tags, chat)] if tags and not asks_llama_cpp_for_text(settings) else []
    plain: list[ConstraintRequest] = []
    if chat.choice.must_call:
        # Every format reads calls as JSON too.
        schema = own.schema if own is not None else {}
        plain = _whole(schema or calls_schema(in_json, parallel=chat.choice.parallel))
        if not schema:
            plain = [dataclasses.replace(way, bare=True) for way in plain]
    elif answer is not None:
        # The client's own schema, or a call: the model is locked out of neither.
        found = []
        plain = _whole(either_schema(answer, in_json, parallel=chat.choice.parallel))
    if settings.constrain != "auto":
        return [way for way in (*found, *plain) if way.kind == settings.constrain][:1]
    found += [way for way in plain if way.kind in _AUTO]
    return [way for way in found if not memory.refuses(chat.model, way.kind)]


def asks_llama_cpp_for_text(settings: Settings) -> bool:
    """Whether the backend's text completions are llama.cpp's: its server told its template (`template=props`). They
    take a schema as `json_schema` alone, and ignore any other constraint in silence.
    """
    told = settings.template is not None and settings.template == settings.upstream_url
    return told and settings.send == "completions"


_SILENCING = frozenset({
    "contains", "dependencies", "dependentRequired", "dependentSchemas", "else", "format", "if", "maxContains",
    "minContains", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties", "uniqueItems", BOOLEANS,
})  # fmt: skip
"""At one of these llama.cpp's text completions drop the whole schema, and do not say so; of formats at `uri`."""
_SILENCING_PATTERN = re.compile(r"\(\?[=!<]|\\[bB]")


def _known_to_llama_cpp(schema: Mapping[str, Any], change: Change | None) -> dict[str, Any]:
    """The schema without what would cost it in text completions: chat completions read over most of it, too."""

    def plain(node: dict[str, Any]) -> dict[str, Any]:
        pattern = node.get("pattern")
        silences = isinstance(pattern, str) and _SILENCING_PATTERN.search(pattern) is not None
        return {key: value for key, value in node.items() if not (silences and key == "pattern")}

    made = schema if change is None else change(schema)
    known: dict[str, Any] = changed(without(made, _SILENCING), plain)
    return known


def _held(tools: Sequence[Tool], change: Change | None, *, raw: bool) -> tuple[Tool, ...]:
    """The tools with the schemas that their arguments are held to: grammars in them, and what `change` makes of them.

    raw: texts are written as they are. In a JSON string only a grammar that needs no escapes can be held: engines
    write what a pattern matches without any.
    """
    made = []
    for tool in tools:
        parameters: Mapping[str, Any] = tool.parameters
        if tool.grammar and (raw or json_safe(tool.grammar)):
            parameters = with_grammar(tool)
        if change is not None:
            parameters = change(parameters)
        made.append(tool if parameters is tool.parameters else dataclasses.replace(tool, parameters=dict(parameters)))
    return tuple(made)


# The ways to ask for plain JSON that are tried unasked.
_AUTO = frozenset({"response_format", "llama_cpp"})


def _whole(schema: dict[str, Any]) -> list[ConstraintRequest]:
    """The ways to ask for JSON of this schema. `guided_json` is not among them: vLLM ignores it since 0.12."""
    json_schema = {"name": "tool_calls", "schema": schema, "strict": True}
    return [
        ConstraintRequest("response_format", {"response_format": {"type": "json_schema", "json_schema": json_schema}}),
        # llama.cpp's server and llama-cpp-python's. They make a grammar of it themselves. One of our own could hold a
        # format's tags, too, but gave fewer valid calls on a real small model, which never ceased to call, than plain
        # JSON, which every format reads (tests/bench/README.md).
        ConstraintRequest("llama_cpp", {"response_format": {"type": "json_object", "schema": schema}}),
        ConstraintRequest("structured_outputs", {"structured_outputs": {"json": schema}}),
        ConstraintRequest(
            "structural_tag",
            {
                "response_format": {
                    "type": "structural_tag",
                    "format": {"type": "json_schema", "json_schema": schema},
                }
            },
        ),
    ]


def answer_schema(chat: ChatRequest) -> Mapping[str, Any] | None:
    """The schema that the client's own `response_format` asks of the answer's text; `{}` for any JSON object."""
    wanted = openai.read_value(chat.fields.get("response_format"))
    match wanted:
        case {"type": "json_schema", "json_schema": {"schema": dict() as schema}}:
            return schema
        case {"type": "json_object"}:
            schema = wanted.get("schema")
            return schema if isinstance(schema, dict) else {"type": "object"}
    return None


def _tagged(tags: tuple[Tag, ...], chat: ChatRequest) -> ConstraintRequest:
    """Calls in the format's own syntax (xgrammar's structural tags, as vLLM and SGLang take them)."""
    made = []
    for tag in tags:
        content = {"type": "json_schema", "json_schema": tag.schema}
        if tag.style:
            content["style"] = tag.style
        made.append({"begin": tag.begin, "content": content, "end": tag.end})
    form: dict[str, Any] = {"type": "triggered_tags", "triggers": sorted({tag.trigger for tag in tags}), "tags": made}
    if chat.choice.must_call:
        form["at_least_one"] = True
    if not chat.choice.parallel:
        form["stop_after_first"] = True
    return ConstraintRequest("structural_tag", {"response_format": {"type": "structural_tag", "format": form}})
