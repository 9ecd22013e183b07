"""An OpenAI chat completion as Google's `generateContent`: how fields are mapped, and which requests are refused.

Facts: ai.google.dev/api/generate-content, /gemini-api/docs/function-calling, /thought-signatures and /openai.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from ...errors import ToolCallError, refusal
from ...wire import openai
from ..upstream import TranslatedRequest
from .contents import contents_of
from .schema import Allowance, parameters_of, response_schema_of

_MODEL = re.compile(r"(?:(models|tunedModels)/)?([A-Za-z0-9][A-Za-z0-9._-]{0,127})")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
_OLD = re.compile(r"gemini-(?:1|2)(?![0-9])")
_BUDGETED = re.compile(r"gemini-2\.5(?![0-9])")
_MAX_STOPS = 5
_MAX_KEPT = 256 << 10  # bytes of a list of tools whose translation is kept

# Google's own OpenAI layer uses these for models that take a number of tokens (ai.google.dev/gemini-api/docs/openai).
_BUDGETS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}
# Newer models take a level; their thinking cannot be turned off.
_LEVELS = {
    "none": "MINIMAL", "minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "XHIGH",
    "max": "XHIGH",
}  # fmt: skip
_NUMBERS = {
    "temperature": "temperature",
    "top_p": "topP",
    "top_k": "topK",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
_THINKING = {
    "include_thoughts": "includeThoughts",
    "thinking_budget": "thinkingBudget",
    "thinking_level": "thinkingLevel",
}
# Fields that would be lost silently: (field, whether this value needs it, what to do instead).
_LACKING: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("logprobs", lambda value: value is True, "Leave it out."),
    ("logit_bias", bool, "Leave it out."),
    ("modalities", lambda value: value not in (None, ["text"]), "Only ['text'] is translated."),
    ("audio", bool, "Leave it out."),
    ("web_search_options", lambda value: value is not None, "Leave it out."),
)


def model_path(model: Any) -> str:
    """The model's resource name in a path. Raises ToolCallError for a name that is not allowed there."""
    found = _MODEL.fullmatch(model) if isinstance(model, str) else None
    if found is None or ".." in found[2]:
        message = (
            "'model' must be a model of Google's API, such as 'gemini-2.5-flash': letters, digits, '.', '_' and '-', "
            f"with 'models/' or 'tunedModels/' before it if need be; got {str(model)[:100]!r}."
        )
        raise ToolCallError("invalid_request", message, param="model")
    return f"{found[1] or 'models'}/{quote(found[2], safe='')}"


def wants_signatures(model: str) -> bool:
    """Whether the model refuses calls in the history that have no thought signature: Gemini from version 3 on."""
    return "gemini" in model and _OLD.search(model) is None


def translate(raw: openai.Fields) -> tuple[TranslatedRequest, dict[str, Any]]:
    """The request for the API, and the client's fields without the tools.

    Raises ToolCallError for what the API cannot express.
    """
    tools_raw = bytes(raw.get("tools", openai.NULL))
    fields = {name: openai.read_value(value) for name, value in raw.items() if name != "tools"}
    model = model_path(fields.get("model"))
    for name, asked, advice in _LACKING:
        if asked(fields.get(name)):
            raise refusal(name, f"Google's API has nothing for '{name}'. {advice}")
    body = contents_of(fields.get("messages"), sign=wants_signatures(model))
    tools, choice = _tools(tools_raw, fields.get("tool_choice"))
    if tools:
        body["tools"] = [{"functionDeclarations": tools}]
        if choice:
            body["toolConfig"] = {"functionCallingConfig": choice}
    config = _config(fields, model)
    google = _own_fields(fields)
    if isinstance(thinking := google.get("thinking_config"), dict):
        config["thinkingConfig"] = {_THINKING.get(name, name): value for name, value in thinking.items()}
    if config:
        body["generationConfig"] = config
    for name, own in (("cached_content", "cachedContent"), ("safety_settings", "safetySettings")):
        if google.get(name):
            body[own] = google[name]
    stream = fields.get("stream") is True
    method = "streamGenerateContent" if stream else "generateContent"
    path, query = f"/v1beta/{model}:{method}", b"alt=sse" if stream else b""
    return TranslatedRequest(path=path, body=openai.encode(body), query=query), fields


def _own_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Google's fields in a client's request, as in Google's OpenAI layer: `extra_body.google`."""
    holder = fields.get("extra_body")
    google = holder.get("google") if isinstance(holder, dict) else fields.get("google")
    return google if isinstance(google, dict) else {}


# -- tools ---------------------------------------------------------------------------------------------------------


def _tools(raw: bytes, tool_choice: Any) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """The declarations and the functionCallingConfig."""
    declared = _declared(raw) if len(raw) > _MAX_KEPT else _kept(raw)
    if not declared:
        return [], None
    match tool_choice:
        case None | "auto":
            return list(declared.values()), None
        case "none":
            return list(declared.values()), {"mode": "NONE"}
        case "required":
            return list(declared.values()), {"mode": "ANY"}
        case {"type": "allowed_tools"} as choice:
            inner = choice.get("allowed_tools", choice)
            entries = inner.get("tools") if isinstance(inner, dict) else None
            names = [_chosen(entry, declared) for entry in entries] if isinstance(entries, list) else []
            if isinstance(inner, dict) and inner.get("mode") == "required":
                return list(declared.values()), {"mode": "ANY", "allowedFunctionNames": names}
            # AUTO takes no list of names, so the other functions are not declared.
            return [declaration for name, declaration in declared.items() if name in names], None
        case dict() as choice:
            name = _chosen(choice, declared)
            return list(declared.values()), {"mode": "ANY", "allowedFunctionNames": [name]}
    raise refusal("tool_choice", "'tool_choice' must be 'none', 'auto', 'required' or an object that names a tool.")


def _declared(raw: bytes) -> Mapping[str, dict[str, Any]]:
    """The declarations by name. Their schemas share one allowance."""
    tools = openai.read_value(raw)
    if tools is not None and not isinstance(tools, list):
        raise refusal("tools", "'tools' must be an array.")
    allowance = Allowance()
    declared: dict[str, dict[str, Any]] = {}
    for index, tool in enumerate(tools or ()):
        declaration = _declaration(tool, f"tools[{index}]", allowance)
        declared[declaration["name"]] = declaration
    return declared


# Agents send the same tools at every turn. Cached values are never changed.
_kept = lru_cache(maxsize=64)(_declared)


def _chosen(entry: Any, declared: Mapping[str, Any]) -> str:
    inner = entry.get("function") or entry.get("custom") or entry if isinstance(entry, dict) else {}
    name = inner.get("name") if isinstance(inner, dict) else None
    if not isinstance(name, str) or name not in declared:
        message = f"'tool_choice' must name a tool of 'tools'; got {str(name)[:100]!r}."
        raise ToolCallError("invalid_tool_choice", message, param="tool_choice")
    return name


def _declaration(tool: Any, param: str, allowance: Allowance) -> dict[str, Any]:
    kind = tool.get("type", "function") if isinstance(tool, dict) else None
    inner = tool.get(kind) if isinstance(tool, dict) and kind in {"function", "custom"} else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        raise refusal(param, "A tool must be a function with a name.")
    name, path = inner["name"], f"{param}.{kind}"
    if not _NAME.fullmatch(name):
        message = (
            f"Google's API cannot express the name of the tool {name[:200]!r}: it must begin with a letter or '_' and "
            "hold only letters, digits, '_', '.', ':' and '-', at most 128 of them."
        )
        raise ToolCallError(
            "tool_schema_incompatible",
            message,
            param=f"{path}.name",
            extra={"incompatible_features": ["name"], "tool": name},
        )
    declaration: dict[str, Any] = {"name": name}
    if isinstance(inner.get("description"), str) and inner["description"]:
        declaration["description"] = inner["description"]
    if kind == "custom":
        text = {"type": "string", "description": "The input of the tool, as plain text."}
        declaration["parametersJsonSchema"] = {"type": "object", "properties": {"input": text}, "required": ["input"]}
    elif inner.get("parameters") is not None:
        declaration |= parameters_of(inner["parameters"], name, f"{path}.parameters", allowance)
    return declaration


# -- the generation config -----------------------------------------------------------------------------------------


def _config(fields: Mapping[str, Any], model: str) -> dict[str, Any]:
    config: dict[str, Any] = {}
    for name, own in _NUMBERS.items():
        value = fields.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refusal(name, f"'{name}' must be a number.")
        config[own] = value
    for name in ("max_completion_tokens", "max_tokens"):
        if fields.get(name) is not None and "maxOutputTokens" not in config:
            config["maxOutputTokens"] = _whole(fields, name)
    if fields.get("n") is not None and _whole(fields, "n") != 1:
        config["candidateCount"] = _whole(fields, "n")
    if fields.get("seed") is not None:
        # Google's seed has 32 bits.
        config["seed"] = _whole(fields, "seed", least=None) & 0x7FFFFFFF
    stops = fields.get("stop")
    stops = [stops] if isinstance(stops, str) else stops
    if isinstance(stops, list) and (stops := [stop for stop in stops if isinstance(stop, str) and stop]):
        if len(stops) > _MAX_STOPS:
            raise refusal("stop", f"Google's API takes at most {_MAX_STOPS} stop strings, got {len(stops)}.")
        config["stopSequences"] = stops
    config |= _response_format(fields.get("response_format"))
    if thinking := _thinking(fields, model):
        config["thinkingConfig"] = thinking
    return config


def _whole(fields: Mapping[str, Any], name: str, *, least: int | None = 1) -> int:
    value = fields[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        raise refusal(name, f"'{name}' must be {'an' if least is None else 'a positive'} integer.")
    return value


def _response_format(value: Any) -> dict[str, Any]:
    match value:
        case None | {"type": "text"}:
            return {}
        case {"type": "json_object"}:
            return {"responseMimeType": "application/json"}
        case {"type": "json_schema", "json_schema": dict() as inner}:
            schema = inner.get("schema")
            written = {} if schema is None else response_schema_of(schema, _SCHEMA, Allowance())
            return {"responseMimeType": "application/json", **written}
    raise refusal("response_format", "'response_format' must be of type 'text', 'json_object' or 'json_schema'.")


_SCHEMA = "response_format.json_schema.schema"


def _thinking(fields: Mapping[str, Any], model: str) -> dict[str, Any]:
    thinking: dict[str, Any] = {}
    if fields.get("include_reasoning") is True:
        thinking["includeThoughts"] = True
    effort = fields.get("reasoning_effort")
    if effort is None:
        return thinking
    if effort not in _LEVELS:
        raise refusal("reasoning_effort", f"'reasoning_effort' must be one of {', '.join(_LEVELS)}.")
    if _BUDGETED.search(model):
        thinking["thinkingBudget"] = _BUDGETS[effort]
    elif wants_signatures(model):
        thinking["thinkingLevel"] = _LEVELS[effort]
    # Other models do not think, and refuse the field.
    return thinking
