"""A chat completion's body as the body of Anthropic's `POST /v1/messages`.

Anthropic's rules: the roles alternate and the user begins; a text block holds more than white space; the results of
all calls of a turn come first in the next user turn; ids are unique and made of letters, digits, `_` and `-`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from ....errors import ToolCallError, refusal
from ....errors import kind as kind_of
from ....json_schema.pointer import Scope, tokens_of
from ....wire.json_input import Reader
from ....wire.openai import encode
from ...foreign_call_ids import CLAUDE, unique
from ...turns import NO_RESULT, Call, Turn, data_url, grouped, read_turns

Block = dict[str, Any]

_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_BEGIN = "Begin."


@dataclass(slots=True)
class Conversation:
    """`system`: text blocks. `messages`: the turns. `tools_used`: names of calls, in order of their first.

    `thought`: whether the calls that wait for an answer, if any, come with the thinking before them.
    """

    system: list[Block]
    messages: list[dict[str, Any]]
    tools_used: list[str]
    thought: bool


def convert(messages: Any) -> Conversation:
    """The messages of a chat completion as Anthropic's. Raises ToolCallError for what cannot be said there."""
    if not isinstance(messages, list) or not messages:
        raise ToolCallError("invalid_request", "messages must be a list that holds at least one message.")
    found = read_turns(messages)
    ids = iter(unique((call.id for turn in found for call in turn.calls), CLAUDE))
    system: list[Block] = []
    said: list[tuple[str, list[Block]]] = []
    for turn in found:
        match turn.role:
            case "user":
                said.append(("user", _content(turn)))
            case "assistant":
                sent = [_checked(call, next(ids)) for call in turn.calls]
                said.append(("assistant", _assistant(turn, sent)))
                said.append(("user", [_result(call, own) for call, own in zip(turn.calls, sent, strict=True)]))
            case _:
                system += _content(turn, only_text=True)
    if not any(blocks for _, blocks in said):
        # The API refuses a request that holds only an instruction.
        said, system = [("user", system)], []
    turns = grouped(said)
    if not turns:
        raise refusal("messages", "The messages hold no text and no calls.")
    role, last = turns[-1]
    if role == "assistant" and last[-1]["type"] == "text":
        # The model is to go on from there, and the API refuses a beginning that ends in white space.
        last[-1] = {**last[-1], "text": last[-1]["text"].rstrip()}
    # Results that come last belong to the calls of the turn before them.
    waiting = len(turns) > 1 and any(block["type"] == "tool_result" for block in last)
    thought = not waiting or "thinking" in turns[-2][1][0]["type"]
    if turns[0][0] != "user":
        turns.insert(0, ("user", [{"type": "text", "text": _BEGIN}]))
    used = list(dict.fromkeys(call.name for turn in found for call in turn.calls))
    return Conversation(system, [{"role": role, "content": _shortest(blocks)} for role, blocks in turns], used, thought)


def _shortest(blocks: list[Block]) -> str | list[Block]:
    return blocks[0]["text"] if len(blocks) == 1 and blocks[0].keys() == {"type", "text"} else blocks


# -- calls and results ---------------------------------------------------------------------------------------------


def _checked(call: Call, own: str) -> str:
    if not call.id:
        raise refusal(call.path, "A tool call needs an id.")
    return own


def _assistant(turn: Turn, sent: list[str]) -> list[Block]:
    """sent: the ids of its calls for the provider."""
    thinking = _thinking(turn.message)
    blocks = [block for before, block in thinking if not before]
    blocks += _content(turn, only_text=True)
    refused = turn.message.get("refusal")
    if isinstance(refused, str) and refused.strip():
        blocks.append({"type": "text", "text": refused})
    for number, (call, own) in enumerate(zip(turn.calls, sent, strict=True)):
        blocks += [block for before, block in thinking if number and before == number]
        blocks.append({"type": "tool_use", "id": own, "name": call.name, "input": _input(call.arguments)})
    return blocks + [block for before, block in thinking if before and before >= len(sent)]


def _input(arguments: Any) -> Any:
    """A call's arguments as the object that the API wants, in their spelling. Other values are put into an object."""
    if isinstance(arguments, dict):
        return arguments
    text = arguments if isinstance(arguments, str) else ""
    if not text.strip():
        return {}
    try:
        value = msgspec.json.decode(text)
        written = msgspec.Raw(text.encode())
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        # A call that was cut off, for instance: the model is shown what it wrote.
        return {"arguments": text.encode("utf-8", "replace").decode()}
    return written if isinstance(value, dict) else {"arguments": value}


def _result(call: Call, own: str) -> Block:
    block: Block = {"type": "tool_result", "tool_use_id": own}
    if not call.results:
        return {**block, "content": NO_RESULT, "is_error": True}
    content = [part for result in call.results for part in _result_content(result)]
    if content:
        block["content"] = _shortest(content)
    if any(result.is_error for result in call.results):
        block["is_error"] = True
    return block


def _result_content(result: Turn) -> list[Block]:
    """A tool's result: text, parts, or any JSON value, which is shown as such."""
    value = result.message.get("content")
    if value is None or isinstance(value, str) or (isinstance(value, list) and value and all(map(_is_part, value))):
        return _content(result)
    return [{"type": "text", "text": encode(value).decode()}]


def _is_part(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in ("text", "image_url")


# -- content -------------------------------------------------------------------------------------------------------


def _content(turn: Turn, *, only_text: bool = False) -> list[Block]:
    """Content as blocks; text of nothing but white space is left out, because the API refuses it."""
    blocks: list[Block] = []
    for part, path in turn.parts():
        if not isinstance(part, dict):
            raise refusal(path, f"An item of this list must be an object, got {kind_of(part)}.")
        block = _part(part, path, only_text=only_text)
        if block is not None:
            mark = part.get("cache_control")
            blocks.append({**block, "cache_control": mark} if isinstance(mark, dict) else block)
    return blocks


def _part(part: dict[str, Any], path: str, *, only_text: bool) -> Block | None:
    match part.get("type"):
        case "text" | "refusal" as kind:
            text = part.get(kind)
            if not isinstance(text, str):
                raise refusal(f"{path}.{kind}", f"'{kind}' must be a string, got {kind_of(text)}.")
            return {"type": "text", "text": text} if text.strip() else None
        case "image_url" if not only_text:
            return {"type": "image", "source": _image(part.get("image_url"), f"{path}.image_url")}
        case "file" if not only_text:
            return _document(part.get("file"), f"{path}.file")
        case kind:
            use = "text" if only_text else "text, image_url or a file with file_data"
            raise refusal(path, f"A part of type {kind!r} cannot be sent here to Anthropic's API; use {use}.")


def _image(value: Any, where: str) -> Block:
    url = value.get("url") if isinstance(value, dict) else value
    if isinstance(url, str) and url[:8].lower().startswith(("http://", "https://")):
        return {"type": "url", "url": url}
    kind, data = (data_url(url) if isinstance(url, str) else None) or ("", "")
    kind = "image/jpeg" if kind == "image/jpg" else kind
    if kind not in _IMAGES:
        allowed = ", ".join(sorted(_IMAGES))
        raise refusal(f"{where}.url", f"An image must be an http address or a base64 data URL of {allowed}.")
    return {"type": "base64", "media_type": kind, "data": data}


def _document(value: Any, where: str) -> Block:
    fields = value if isinstance(value, dict) else {}
    url = fields.get("file_data")
    kind, data = (data_url(url) if isinstance(url, str) else None) or ("", "")
    if kind != "application/pdf":
        message = "A file must hold file_data, a base64 data URL of application/pdf; the API knows no other file_id."
        raise refusal(where, message)
    block: Block = {"type": "document", "source": {"type": "base64", "media_type": kind, "data": data}}
    if isinstance(fields.get("filename"), str) and fields["filename"]:
        block["title"] = fields["filename"]
    return block


def _thinking(message: dict[str, Any]) -> list[tuple[int, Block]]:
    """The model's thinking as it came with an answer of ours (`reasoning_details`), or as `thinking_blocks`.

    Each has the number of calls before it. Only signed thinking is sent back: the API refuses the rest.
    """
    for name in ("reasoning_details", "thinking_blocks"):
        blocks: list[tuple[int, Block]] = []
        given = message.get(name)
        for item in given if isinstance(given, list) else ():
            before = item.get("calls_before") if isinstance(item, dict) else None
            before = before if isinstance(before, int) and before > 0 else 0
            match item:
                case {"type": "reasoning.text", "text": str(text), "signature": str(signature)} | {
                    "type": "thinking",
                    "thinking": str(text),
                    "signature": str(signature),
                } if signature:
                    blocks.append((before, {"type": "thinking", "thinking": text, "signature": signature}))
                case {"type": "reasoning.encrypted" | "redacted_thinking", "data": str(data)}:
                    blocks.append((before, {"type": "redacted_thinking", "data": data}))
        if blocks:
            return blocks
    return []


# -- the request -----------------------------------------------------------------------------------------------------


_log = logging.getLogger("toolcall_middleware.anthropic")

# Fields that change the answer in a way that this API cannot. They are refused rather than silently dropped.
_REFUSED: Mapping[str, str] = {
    "logprobs": "it gives no log probabilities",
    "top_logprobs": "it gives no log probabilities",
    "audio": "it writes no audio",
    "functions": "send tools instead",
    "web_search_options": "it has no such option",
}
# Fields that an answer can do without. They are left out with a line in the log.
_LEFT_OUT = ("frequency_penalty", "presence_penalty", "logit_bias", "seed", "prediction", "verbosity")
_TIERS = {"auto": "auto", "default": "standard_only", "standard_only": "standard_only"}

# Tokens to think with, where a model wants a number. The API's least is 1024.
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16384, "xhigh": 32768, "max": 32768}
_LEAST_BUDGET = 1024
_EFFORTS = {"minimal": "low"}  # the others have the same name there

_JSON_SCHEMA = "Answer with nothing but JSON that fits this JSON Schema: {}"
_JSON_OBJECT = "Answer with nothing but a JSON object."


def build(body: Reader, *, default_max_tokens: int) -> dict[str, Any]:
    """The body for the API. Raises ToolCallError for what it cannot express.

    `default_max_tokens` is the limit of an answer if the client sets none: the API requires a number.
    """
    _refuse(body)
    model = body.filled("model")
    able = abilities(model)
    talk = convert(body.value("messages"))
    sent: dict[str, Any] = {"model": model, "messages": talk.messages}
    _tools(body, talk, able, sent)
    _response_format(body, talk, able, sent)
    if talk.system:
        texts = [block["text"] for block in talk.system]
        plain = all(block.keys() == {"type", "text"} for block in talk.system)
        sent["system"] = "\n\n".join(texts) if plain else talk.system
    _lengths(body, talk, able, sent, default_max_tokens)
    _sampling(body, able, sent)
    if stops := _stop_sequences(body):
        sent["stop_sequences"] = stops
    user = body.value("safety_identifier") or body.value("user")
    if isinstance(user, str) and user:
        sent["metadata"] = {"user_id": user}
    tier = body.value("service_tier")
    if isinstance(tier, str) and tier in _TIERS:
        sent["service_tier"] = _TIERS[tier]
    if body.begins("cache_control", b"{"):
        sent["cache_control"] = body.fields["cache_control"]
    if body.value("stream") is True:
        sent["stream"] = True
    return sent


def _refuse(body: Reader) -> None:
    if body.value("n") not in (None, 1):
        raise refusal("n", "Anthropic's API gives one answer a request: n must be 1.")
    for name, reason in _REFUSED.items():
        if body.value(name):
            raise refusal(name, f"Anthropic's API cannot do {name}: {reason}.")
    modalities = body.value("modalities")
    if modalities and modalities != ["text"]:
        raise refusal("modalities", "Anthropic's API writes text only.")
    for name in _LEFT_OUT:
        if body.value(name):
            _log.warning("%s is left out: Anthropic's API does not know it.", name)


# -- tools ---------------------------------------------------------------------------------------------------------


def _tools(body: Reader, talk: Conversation, able: Abilities, sent: dict[str, Any]) -> None:
    tools = [_tool(tool, able) for tool in body.items("tools")]
    if not tools:
        if talk.tools_used:
            # The API wants every tool of the history declared; none of them may be called.
            sent["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in talk.tools_used]
            sent["tool_choice"] = {"type": "none"}
        return
    choice, names = _choice(body.value("tool_choice"))
    if names is not None:
        tools = [tool for tool in tools if tool["name"] in names]
    if choice["type"] in {"any", "tool"} and not able.forced:
        # If the answer then lacks a required call, the middleware retries.
        choice = {"type": "auto"}
        _log.info("tool_choice: this model cannot be forced to call; auto is sent.")
    if choice["type"] == "tool" or (choice["type"] != "none" and body.value("parallel_tool_calls") is False):
        choice["disable_parallel_tool_use"] = True
    sent["tools"] = tools
    if choice != {"type": "auto"}:
        sent["tool_choice"] = choice


def _tool(tool: Reader, able: Abilities) -> dict[str, Any]:
    function = tool.inner("function") if tool.value("type") == "function" else None
    if function is None:
        message = "Only tools of type function can be offered through Anthropic's API here."
        raise refusal(tool.path, message)
    name = function.required("name")
    schema, refused = input_schema(function.value("parameters"))
    if refused:
        message = (
            f"Anthropic's API takes no {', '.join(refused)} in the parameters of {name!r}: they must be an object's."
        )
        where = function.where("parameters")
        raise refusal(where, message, "tool_schema_incompatible", incompatible_features=refused, tool=name)
    sent: dict[str, Any] = {"name": name, "input_schema": schema}
    description = function.value("description")
    if isinstance(description, str) and description:
        sent["description"] = description
    if function.value("strict") is True:
        if able.structured and can_be_constrained(schema):
            sent["strict"] = True
        else:
            _log.info("%s: strict is left out: the API cannot constrain this schema with this model.", name)
    if tool.begins("cache_control", b"{"):
        sent["cache_control"] = tool.fields["cache_control"]
    return sent


def _choice(value: Any) -> tuple[dict[str, Any], frozenset[str] | None]:
    """(the API's tool_choice, the names that may be called or None for all)."""
    match value:
        case None | "auto":
            return {"type": "auto"}, None
        case "none":
            return {"type": "none"}, None
        case "required":
            return {"type": "any"}, None
        case {"type": "function", "function": {"name": str(name)}}:
            return {"type": "tool", "name": name}, None
        case {"type": "allowed_tools", "allowed_tools": {"tools": list(tools), **rest}}:
            names = frozenset(
                tool["function"]["name"]
                for tool in tools
                if isinstance(tool, dict) and isinstance(tool.get("function"), dict) and "name" in tool["function"]
            )
            return {"type": "any" if rest.get("mode") == "required" else "auto"}, names
        case _:
            message = "tool_choice must be none, auto, required, a function's name or allowed_tools."
            raise refusal("tool_choice", message, "invalid_tool_choice")


def _response_format(body: Reader, talk: Conversation, able: Abilities, sent: dict[str, Any]) -> None:
    match body.value("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            if able.structured and can_be_constrained(schema):
                sent["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
            else:
                talk.system.append({"type": "text", "text": _JSON_SCHEMA.format(encode(schema).decode())})
        case {"type": "json_object" | "json_schema"}:
            talk.system.append({"type": "text", "text": _JSON_OBJECT})


# -- numbers -------------------------------------------------------------------------------------------------------


def _lengths(body: Reader, talk: Conversation, able: Abilities, sent: dict[str, Any], default: int) -> None:
    """Set max_tokens, and how the model thinks within them."""
    asked = body.count("max_completion_tokens") or body.count("max_tokens")
    sent["max_tokens"] = asked or default
    if isinstance(thinking := body.value("thinking"), dict):
        # The API's own field, from a client that knows it.
        sent["thinking"] = thinking
        return
    effort = _effort(body)
    forced = sent.get("tool_choice", {}).get("type") in {"any", "tool"}
    if forced and able.on and able.off:
        # A call cannot be forced while the model thinks, which newer ones do by themselves.
        sent["thinking"] = {"type": "disabled"}
        return
    if effort is None or not able.thinks:
        return
    if effort == "none":
        if able.adaptive and able.off:
            sent["thinking"] = {"type": "disabled"}
        elif able.adaptive:
            sent.setdefault("output_config", {})["effort"] = "low"
        return
    if forced:
        _log.info("reasoning_effort is left out: the API cannot think when a call is forced.")
        return
    budget = _BUDGETS[effort]
    if asked is None:
        sent["max_tokens"] += budget
    if able.adaptive:
        level = "high" if effort == "xhigh" and not able.xhigh else _EFFORTS.get(effort, effort)
        sent["thinking"] = {"type": "adaptive", "display": "summarized"}
        sent.setdefault("output_config", {})["effort"] = level
        return
    budget = min(budget, sent["max_tokens"] * 3 // 4)
    if budget < _LEAST_BUDGET or not talk.thought:
        # There is too little room, or the client did not keep the thinking of calls, which the API then refuses.
        _log.info("reasoning_effort is left out: the conversation or max_tokens leave no room for thinking.")
        return
    sent["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _effort(body: Reader) -> str | None:
    effort = body.value("reasoning_effort")
    reasoning = body.value("reasoning")
    if effort is None and isinstance(reasoning, dict):
        effort = reasoning.get("effort")
    if effort is None:
        return None
    if effort == "none":
        return "none"
    if not isinstance(effort, str) or effort not in _BUDGETS:
        allowed = ", ".join(["none", *_BUDGETS])
        raise refusal("reasoning_effort", f"reasoning_effort must be one of {allowed}.")
    return effort


def _sampling(body: Reader, able: Abilities, sent: dict[str, Any]) -> None:
    """temperature, top_p and top_k, where the model takes them and does not think (then it takes no others)."""
    read = {name: body.value(name) for name in ("temperature", "top_p", "top_k")}
    given = {
        name: value for name, value in read.items() if isinstance(value, int | float) and not isinstance(value, bool)
    }
    thinks = sent.get("thinking", {}).get("type", "disabled") != "disabled"
    if given and (thinks or not able.sampling):
        _log.info("%s left out: the model takes none%s.", ", ".join(given), " when it thinks" if thinks else "")
        return
    temperature = given.get("temperature")
    if temperature is not None and temperature > 1:
        _log.warning("temperature %s is sent as 1, which is Anthropic's most.", temperature)
        given["temperature"] = 1
    if temperature is not None and "top_p" in given and not able.both_sampling:
        _log.info("top_p is left out: the model takes it or a temperature.")
        del given["top_p"]
    sent.update(given)


def _stop_sequences(body: Reader) -> list[str]:
    """The client's stop strings; those of white space alone are refused by the API and left out."""
    wanted = [body.required("stop")] if body.begins("stop", b'"') else body.texts("stop")
    kept = [item for item in wanted if item.strip()]
    if len(kept) < len(wanted):
        _log.warning("A stop string of white space is left out: Anthropic's API refuses it.")
    return kept


# -- what a Claude model's requests may hold, by its name: newer models refuse what older ones need --------------------


# claude-opus-4-1-20250805, claude-3-7-sonnet-latest, anthropic.claude-opus-4-6-v1, claude-2.1
_CLAUDE = re.compile(r"claude-(?:[a-z]+-)*(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
_ALWAYS_THINKS = re.compile(r"claude-(?:mythos|fable)")
_NEWEST = (99, 0)
_LIKE_OTHERS = (3, 7)
"""The version of Claude that takes what models of other vendors take."""


class Abilities(NamedTuple):
    """What may be sent to a model.

    sampling: temperature, top_p, top_k. both_sampling: temperature and top_p together. structured:
    `output_config.format` and `strict` tools. thinks: it can think; adaptive: by `output_config.effort`, else within a
    number of tokens. xhigh: that is one of the efforts. forced: tool_choice `any` and `tool`. off: thinking can be
    disabled; on: it is on by default.
    """

    sampling: bool
    both_sampling: bool
    structured: bool
    thinks: bool
    adaptive: bool
    xhigh: bool
    forced: bool
    off: bool
    on: bool


def abilities(model: str) -> Abilities:
    """What may be sent to `model`."""
    name = model.lower()
    found = _CLAUDE.search(name)
    version = (int(found[1]), int(found[2] or 0)) if found else _NEWEST if "claude" in name else _LIKE_OTHERS
    thinker = _ALWAYS_THINKS.search(name) is not None
    return Abilities(
        sampling=version < (4, 7),
        both_sampling=version < (4, 1),
        structured=version >= (4, 5),
        thinks=version >= (3, 7),
        adaptive=version >= (4, 6),
        xhigh=version >= (4, 7),
        forced=version < (5, 1),
        off=not thinker and version < (5, 1),
        on=thinker or version >= (5, 0),
    )


# -- which JSON Schemas Anthropic's API takes: for a tool's input, and for constrained decoding ------------------------


_NOT_AT_THE_ROOT = ("anyOf", "oneOf", "allOf")
_MAX_DEPTH = 64

# https://platform.claude.com/docs/en/build-with-claude/structured-outputs (JSON Schema limitations)
_PLAIN = frozenset(
    {"type", "title", "description", "default", "examples", "enum", "const", "required", "$schema", "$id", "$comment"}
)
_DEFINITIONS = frozenset({"$defs", "definitions"})
_MAPS = frozenset({"properties"}) | _DEFINITIONS
_LISTS = frozenset({"anyOf", "allOf"})
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})


def input_schema(parameters: Any) -> tuple[dict[str, Any], list[str]]:
    """(a tool's parameters as `input_schema`, what of them the API refuses)."""
    schema = dict(parameters) if isinstance(parameters, dict) else {}
    features = [name for name in _NOT_AT_THE_ROOT if name in schema]
    if schema.get("type", "object") != "object":
        features.append(f"type {schema['type']} at the root")
    return {"type": "object", **schema}, features


def can_be_constrained(schema: Any) -> bool:
    """Whether decoding can be constrained to `schema` as it is: no keyword would be refused, and none recurs."""
    return isinstance(schema, dict) and _Plain(Scope(schema)).holds(schema, 0)


class _Plain:
    """One check of one document. Each definition is checked once, where it is first used."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._open: set[int] = set()
        self._done: set[int] = set()

    def holds(self, schema: Any, depth: int) -> bool:
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return False
        if "properties" in schema or schema.get("type") == "object":
            if schema.get("additionalProperties") is not False:
                return False
        return all(self._keyword(name, value, depth) for name, value in schema.items())

    def _keyword(self, name: str, value: Any, depth: int) -> bool:
        if name == "enum":
            return isinstance(value, list) and not any(isinstance(item, dict | list) for item in value)
        if name in _PLAIN:
            return True
        if name == "additionalProperties":
            return value is False
        if name == "format":
            return isinstance(value, str) and value in _FORMATS
        if name == "minItems":
            return isinstance(value, int) and value in {0, 1}
        if name == "items":
            return self.holds(value, depth + 1)
        if name in _MAPS:
            inner = value.values() if isinstance(value, dict) else [None]
            # Definitions are checked where they are used.
            return name != "properties" or all(self.holds(item, depth + 1) for item in inner)
        if name in _LISTS:
            return isinstance(value, list) and all(self.holds(item, depth + 1) for item in value)
        return name == "$ref" and self._reference(value, depth)

    def _reference(self, value: Any, depth: int) -> bool:
        target = self._scope.find(value)
        if target is None or not value.startswith("#/"):
            return False
        section, *names = tokens_of(value)
        if section not in _DEFINITIONS or len(names) != 1 or id(target) in self._open:
            return False
        key = id(target)
        if key not in self._done:
            self._open.add(key)
            if not self.holds(target, depth + 1):
                return False
            self._open.discard(key)
            self._done.add(key)
        return True
