"""An OpenAI chat completion as Google's `generateContent`: how fields are mapped, and which requests are refused.

Facts: ai.google.dev/api/generate-content, /gemini-api/docs/function-calling, /thought-signatures and /openai.

A result is matched to its call by the function's name and the order, and by id if Google gave one. The ids that are
made for a client (`call_` and 24 characters) mean nothing to Google and are not sent.

A thought signature travels with the client, in `extra_content.google.thought_signature` of a call or a message, as in
Google's own OpenAI layer. For a client that drops unknown fields, and for calls of another model, the value
that Google documents for this is sent: newer models refuse a call without a signature.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from ...errors import refusal
from ...wire import openai
from ..turns import NO_RESULT, Call, Turn, data_url, grouped, read_turns
from ..upstream import TranslatedRequest
from .schema import Allowance, parameters_of, response_schema_of

NO_SIGNATURE = "skip_thought_signature_validator"

_OUR_ID = re.compile(r"call_[A-Za-z0-9]{24}")
_ID = re.compile(r"[\x21-\x7e]{1,256}")
_AUDIO = {"wav": "audio/wav", "mp3": "audio/mp3", "flac": "audio/flac", "ogg": "audio/ogg", "aac": "audio/aac"}
_TYPES = {
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp", "gif": "image/gif",
    "heic": "image/heic", "heif": "image/heif", "bmp": "image/bmp", "pdf": "application/pdf", "mp4": "video/mp4",
}  # fmt: skip
_EXTENSION = re.compile(r"\.([A-Za-z0-9]{1,5})(?:[?#]|$)")
Part = dict[str, Any]


def contents_of(messages: Any, *, sign: bool) -> dict[str, Any]:
    """`contents` and, where there are system messages, `systemInstruction`.

    sign: the first call of each turn gets a signature in any case. Raises ToolCallError.
    """
    system: list[Part] = []
    said: list[tuple[str, list[Part]]] = []
    for turn in read_turns(messages):
        if turn.role in {"system", "developer"}:
            system += _text_parts(turn)
        elif turn.role == "user":
            said.append(("user", _parts(turn)))
        else:
            said.append(("model", _of_model(turn, sign=sign)))
            # In the order of the calls, by which they are matched. Google counts them, so they are a turn of their own.
            said.append(("results", [{"functionResponse": _response(call)} for call in turn.calls]))
    contents = [{"role": role.replace("results", "user"), "parts": parts} for role, parts in grouped(said)]
    if not contents:
        # Google refuses a request that holds only an instruction.
        system, contents = [], [{"role": "user", "parts": system}]
    if not contents[0]["parts"]:
        raise refusal("messages", "The messages hold no text and no calls.")
    return {"contents": contents, **({"systemInstruction": {"parts": system}} if system else {})}


def _of_model(turn: Turn, *, sign: bool) -> list[Part]:
    """The parts of an assistant's message."""
    parts = _text_parts(turn)
    declined = turn.message.get("refusal")
    if not parts and isinstance(declined, str) and declined:
        parts = [{"text": declined}]
    if (signature := _signature(turn.message)) is not None:
        # The signature came with the text, or in a part of its own after it.
        parts = parts or [{"text": ""}]
        parts[-1]["thoughtSignature"] = signature
    for number, call in enumerate(turn.calls):
        part: Part = {"functionCall": {**_id(call.id), "name": call.name, "args": _object_of(call.arguments)}}
        if (signature := _signature(call.fields)) is not None:
            part["thoughtSignature"] = signature
        elif sign and not number:
            part["thoughtSignature"] = NO_SIGNATURE
        parts.append(part)
    return parts


def _response(call: Call) -> dict[str, Any]:
    """The one result that Google's API requires for a call."""
    head = {**_id(call.id), "name": call.name}
    if not call.results:
        return {**head, "response": {"error": NO_RESULT}}
    read = [_result_of(result) for result in call.results]
    values, media = [value for value, _ in read], [part for _, parts in read for part in parts]
    word = "error" if any(result.is_error for result in call.results) else "result"
    answer = {**head, "response": {word: values if len(values) > 1 else values[0]}}
    return {**answer, "parts": media} if media else answer


def _id(call_id: str) -> dict[str, str]:
    """The id field of a call from Google or another provider; empty if the id was made by this package."""
    return {} if _OUR_ID.fullmatch(call_id) or not _ID.fullmatch(call_id) else {"id": call_id}


def _signature(holder: Mapping[str, Any]) -> str | None:
    match holder.get("extra_content"):
        case {"google": {"thought_signature": str(signature)}} if signature:
            return signature
    return None


def _object_of(arguments: Any) -> dict[str, Any]:
    """A call's arguments as an object. Arguments that are not an object are kept in the field `arguments`."""
    value = arguments
    if isinstance(arguments, str):
        if not arguments.strip():
            return {}
        value = openai.read_value(arguments.encode("utf-8", "replace"))
    if value is None and not isinstance(arguments, str):
        return {}
    return value if isinstance(value, dict) else {"arguments": arguments if value is None else value}


# -- contents of a message -----------------------------------------------------------------------------------------


def _text_parts(turn: Turn) -> list[Part]:
    """The parts of a content that may hold only text."""
    parts = _parts(turn)
    if any("text" not in part for part in parts):
        raise refusal(f"{turn.path}.content", "Google's API takes only text here.")
    return parts


def _parts(turn: Turn) -> list[Part]:
    """A message's content without empty text, which the API does not take."""
    parts = [_part(part, path) for part, path in turn.parts()]
    return [part for part in parts if part != {"text": ""}]


def _part(part: Any, param: str) -> dict[str, Any]:
    match part:
        case {"type": "text", "text": str(text)} | {"type": "refusal", "refusal": str(text)}:
            return {"text": text}
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            return _media(url, f"{param}.image_url.url")
        case {"type": "video_url", "video_url": {"url": str(url)} | str(url)}:
            return _media(url, f"{param}.video_url.url")
        case {"type": "input_audio", "input_audio": {"data": str(data), "format": str(name)}} if name in _AUDIO:
            return {"inlineData": {"mimeType": _AUDIO[name], "data": _base64(data, f"{param}.input_audio.data")}}
        case {"type": "file", "file": {"file_data": str(url)}}:
            return _media(url, f"{param}.file.file_data")
        case {"type": "file"}:
            raise refusal(f"{param}.file", "A file must be given as 'file_data': Google does not know OpenAI's files.")
        case {"type": str(kind)}:
            raise refusal(
                param, f"A part of type {kind[:100]!r} cannot be sent to Google's API, or it is not complete."
            )
    raise refusal(param, "A part of the content must be an object with a type.")


def _media(url: str, param: str) -> Part:
    """The part for a data URL's bytes, or for a reference that Google fetches."""
    if (found := data_url(url)) is not None:
        return {"inlineData": {"mimeType": found[0], "data": _base64(found[1], param)}}
    if url.startswith(("https://", "http://", "gs://")):
        extension = _EXTENSION.search(url)
        kind = _TYPES.get(extension[1].lower()) if extension else None
        return {"fileData": {"fileUri": url, **({"mimeType": kind} if kind else {})}}
    raise refusal(param, "It must be an address, or a data URL with a type and base64.")


def _base64(data: str, param: str) -> str:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise refusal(param, "The data are not base64.") from None
    return data


def _result_of(result: Turn) -> tuple[Any, list[Part]]:
    """(what a tool gave back: text as it is, any other JSON value as that value; its media)."""
    content = result.message.get("content")
    if not isinstance(content, list) or not all(isinstance(part, dict) and "type" in part for part in content):
        return ("" if content is None else content), []
    parts = [_part(part, path) for part, path in result.parts()]
    text = "".join(part["text"] for part in parts if "text" in part)
    return text, [part for part in parts if "text" not in part]


# -- the request -----------------------------------------------------------------------------------------------------


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
        raise refusal("model", message)
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
    tools = list(declared.values())
    match tool_choice:
        case None | "auto":
            return tools, None
        case "none":
            return tools, {"mode": "NONE"}
        case "required":
            return tools, {"mode": "ANY"}
        case {"type": "allowed_tools"} as choice:
            inner = choice.get("allowed_tools", choice)
            fields = inner if isinstance(inner, dict) else {}
            entries = fields.get("tools")
            names = [_chosen(entry, declared) for entry in entries] if isinstance(entries, list) else []
            if fields.get("mode") == "required":
                return tools, {"mode": "ANY", "allowedFunctionNames": names}
            # AUTO takes no list of names, so the other functions are not declared.
            return [tool for tool in tools if tool["name"] in names], None
        case dict() as choice:
            return tools, {"mode": "ANY", "allowedFunctionNames": [_chosen(choice, declared)]}
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
        raise refusal("tool_choice", message, "invalid_tool_choice")
    return name


def _declaration(tool: Any, param: str, allowance: Allowance) -> dict[str, Any]:
    kind = tool.get("type", "function") if isinstance(tool, dict) else None
    inner = tool.get(kind) if isinstance(tool, dict) and kind in ("function", "custom") else None
    if not isinstance(inner, dict) or not isinstance(inner.get("name"), str):
        raise refusal(param, "A tool must be a function with a name.")
    name, path = inner["name"], f"{param}.{kind}"
    if not _NAME.fullmatch(name):
        message = (
            f"Google's API cannot express the name of the tool {name[:200]!r}: it must begin with a letter or '_' and "
            "hold only letters, digits, '_', '.', ':' and '-', at most 128 of them."
        )
        where = f"{path}.name"
        raise refusal(where, message, "tool_schema_incompatible", incompatible_features=["name"], tool=name)
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
    if not isinstance(effort, str) or effort not in _LEVELS:
        raise refusal("reasoning_effort", f"'reasoning_effort' must be one of {', '.join(_LEVELS)}.")
    if _BUDGETED.search(model):
        thinking["thinkingBudget"] = _BUDGETS[effort]
    elif wants_signatures(model):
        thinking["thinkingLevel"] = _LEVELS[effort]
    # Other models do not think, and refuse the field.
    return thinking
