"""Whether a model's backend calls tools itself (`mode=auto`), how large its window is (`tools_budget=auto`), which chat
template it has (`format=auto`), and the questions that show it.

llama.cpp has its template at `/props`, and says whether that takes tools. Of any other backend, the tokens of a prompt
tell: with a tool it is longer than without, or the tool was dropped. A short conversation of our own is asked, so that
no client's words decide.
"""

from __future__ import annotations

import enum
import functools
import importlib.util
import logging
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec

from ..errors import shown
from ..formats import models
from ..formats.unparsed_calls import is_models_fault
from ..request.parse import ChatRequest
from ..settings import Settings
from ..usage.upstream_tokenizer import Question
from ..wire import openai
from .backend_memory import DOUBTFUL_SECONDS, REMEMBERED_SECONDS, BackendMemory, Fact, Topic

_log = logging.getLogger("toolcall_middleware")
FACT = Fact(Topic.TOOLS)
WINDOW = Fact(Topic.WINDOW)
TEMPLATE = Fact(Topic.TEMPLATE)
_UNKNOWN_WINDOW = 0
_SERVER_ERROR = 500
_LEAST_GROWTH = 3  # tokens: a template may write the time of day, and no tool is as short
_TOOL_WORDS = ("tool", "function", "extra inputs", "extra fields", "unknown field", "unrecognized", "jinja")
_STATUSES = frozenset({400, 404, 422, 500, 501})  # by which tools are refused
_NEWER_LIMIT = "max_completion_tokens"  # OpenAI's models that reason refuse the older name
_MESSAGES = [{"role": "user", "content": "Hi"}]
_TOOL = {
    "type": "function",
    "function": {
        "name": "get_current_weather",
        "description": "Returns the temperature, the wind and the chance of rain in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "The name of the city"}},
            "required": ["city"],
        },
    },
}


class ToolSupport(enum.StrEnum):
    """What is known of a model's native calls."""

    CALLS = "calls"  # a call of the model's own choice came
    SHOWN = "shown"  # tools reach the model
    NONE = "none"  # they are refused or dropped, or calls do not come out as calls
    DOUBTED = "doubted"  # tools of one request were refused: the backend is to be asked again


NATIVE = frozenset({ToolSupport.CALLS, ToolSupport.SHOWN})


class Told(NamedTuple):
    """The backend's answer to a question."""

    status: int
    body: bytes


class Evidence(NamedTuple):
    """What answers show; None: nothing."""

    support: ToolSupport | None = None
    window: int | None = None
    """In tokens."""
    props: Any = None
    """What `/props` says; None where it says nothing."""
    is_sure: bool = True
    """The backend answered: it was neither silent nor starting."""


Questions = Generator[Question, "Told | None", Evidence]
"""Yields questions, takes the answers (None where no answer came), returns what they show."""


@dataclass(frozen=True, slots=True)
class PendingProof:
    """Evidence that a request waits for. A host asks the `questions`, and gives the result to `derive` in a thread and
    then to `learn`.

    support, window, template: what is wanted.
    """

    model: str
    memory: BackendMemory
    support: bool = True
    window: bool = False
    template: bool = False

    @property
    def is_due(self) -> bool:
        """Whether it still has to be asked: another request may have done so meanwhile."""
        lacks_window = self.window and self.memory.recall(self.model, WINDOW) is None
        lacks_support = self.support and self.memory.recall(self.model, FACT) in {None, ToolSupport.DOUBTED}
        lacks_template = self.template and self.memory.recall(self.model, TEMPLATE) is None
        lacks_template = lacks_template and self.memory.recall(self.model, FACT) not in NATIVE
        return lacks_window or lacks_support or lacks_template

    def questions(self) -> Questions:
        """What to ask the backend."""
        props = yield Question(f"/props?model={quote(self.model, safe='')}")
        told = None if props is None or props.status != 200 else openai.read_value(props.body)
        window = None
        if self.window and (window := _window_in_props(told)) is None:
            models = yield Question("/v1/models")
            listed = None if models is None or models.status != 200 else openai.read_value(models.body)
            window = _window_in_models(listed, self.model)
        support = None
        if self.support and (support := _support_in_props(told)) is None:
            support = yield from _support(self.model)
        return Evidence(support, window, told, is_sure=props is not None and props.status < _SERVER_ERROR)

    def derive(self, evidence: Evidence) -> str | None:
        """The template of these props, by the name that it has from now on. Empty where it derives no family, or there
        is none; None where it is not wanted. Takes seconds: not for an event loop.
        """
        if not self.template or evidence.support in NATIVE:
            return None
        if evidence.props is None:
            return ""
        from ..formats.template import sources

        return sources.of_props(self.model, evidence.props)

    def learn(self, evidence: Evidence, template: str | None = None) -> None:
        """Remember what the answers showed. template: what `derive` returned."""
        if template is not None:
            seconds = REMEMBERED_SECONDS if evidence.is_sure else DOUBTFUL_SECONDS
            self.memory.note(self.model, TEMPLATE, value=template, seconds=seconds)
        if self.window:
            self.memory.note(self.model, WINDOW, value=evidence.window or _UNKNOWN_WINDOW)
            size = "no window is known" if evidence.window is None else f"a window of {evidence.window} tokens"
            _log.info("The backend of %s: %s.", shown(self.model), size)
        if self.support:
            self._learn_support(evidence.support)

    def _learn_support(self, support: ToolSupport | None) -> None:
        self.memory.note(self.model, FACT, value=support)
        said = {None: "nothing shows whether tools reach it", ToolSupport.NONE: "tools go by prompt"}
        _log.info("The backend of %s: %s.", shown(self.model), said.get(support, "tools reach the model"))


def support_of(chat: ChatRequest, settings: Settings, memory: BackendMemory) -> ToolSupport | None:
    """What is known of the model that a request names. Providers of other APIs than OpenAI's take tools."""
    known = memory.recall(chat.model, FACT)
    if known is None:
        return ToolSupport.SHOWN if settings.upstream_api != "openai" else None
    return ToolSupport(known)


def proof_for(chat: ChatRequest, settings: Settings, memory: BackendMemory) -> PendingProof | None:
    """The evidence that a request waits for; None where it needs none."""
    if not chat.offers_tools:
        return None
    known = support_of(chat, settings, memory)
    support = settings.mode == "auto" and known in {None, ToolSupport.DOUBTED}
    window = settings.tools_budget == "auto" and memory.recall(chat.model, WINDOW) is None
    by_prompt = settings.mode == "prompt" or (settings.mode == "auto" and known not in NATIVE)
    template = by_prompt and _may_show_template(settings) and memory.recall(chat.model, TEMPLATE) is None
    template = template and models.family(chat.model) is None
    wanted = support or window or template
    return PendingProof(chat.model, memory, support, window, template) if wanted else None


def template_of(model: str, settings: Settings, memory: BackendMemory) -> str | None:
    """The template that says how a model calls: the one that is set, else the one that its backend shows."""
    return settings.template or memory.recall(model, TEMPLATE) or None


def _may_show_template(settings: Settings) -> bool:
    """Whether the backend may be a llama.cpp server whose template is of use: an app of this process is none, unless
    `mode=auto` has to ask it anyway.
    """
    if settings.format != "auto" or settings.upstream_api != "openai":
        return False
    if settings.template is not None or settings.by_hand("template"):
        return False
    return (settings.mode == "auto" or settings.upstream_url is not None) and _renders_templates()


@functools.cache
def _renders_templates() -> bool:
    return importlib.util.find_spec("jinja2") is not None


def refuses_tools(status: int, said: str) -> bool:
    """Whether an error with this text, in lower case, is about the tools: no parser, an unknown field, a template."""
    return status in _STATUSES and (any(word in said for word in _TOOL_WORDS) or is_models_fault(said))


def _support(model: str) -> Generator[Question, Told | None, ToolSupport | None]:
    body = {"model": model, "messages": _MESSAGES}
    told = yield from _completion({**body, "tools": [_TOOL]})
    if told is None:
        return None
    if told.status != 200:
        return ToolSupport.NONE if refuses_tools(told.status, _said(told)) else None
    answer = openai.read_value(told.body)
    if _has_call(answer):
        return ToolSupport.CALLS
    with_tool = _prompt_tokens(answer)
    told = None if with_tool is None else (yield from _completion(body))
    without = None if told is None or told.status != 200 else _prompt_tokens(openai.read_value(told.body))
    if with_tool is None or without is None:
        return None
    return ToolSupport.SHOWN if with_tool - without >= _LEAST_GROWTH else ToolSupport.NONE


def _completion(body: Mapping[str, Any]) -> Generator[Question, Told | None, Told | None]:
    """The answer to a chat completion of one token."""
    told = yield Question(None, msgspec.json.encode({**body, "max_tokens": 1}))
    if told is not None and told.status != 200 and _NEWER_LIMIT in _said(told):
        told = yield Question(None, msgspec.json.encode({**body, _NEWER_LIMIT: 1}))
    return told


def _said(told: Told) -> str:
    return told.body.decode("utf-8", "replace").lower()


def _support_in_props(props: Any) -> ToolSupport | None:
    match props:
        case {"chat_template_caps": {"supports_tools": bool(takes)}}:
            return ToolSupport.SHOWN if takes else ToolSupport.NONE
    return None


def _window_in_props(props: Any) -> int | None:
    """llama.cpp's: the tokens of one slot."""
    match props:
        case {"default_generation_settings": {"n_ctx": int(tokens)}} if tokens > 0:
            return tokens
    return None


def _window_in_models(listed: Any, model: str) -> int | None:
    """`max_model_len` of this model, or of the only one (vLLM, SGLang); several gateways call it `context_length`."""
    rows = listed.get("data") if isinstance(listed, dict) else None
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    row = next((row for row in rows if row.get("id") == model), rows[0] if len(rows) == 1 else {})
    tokens = row.get("max_model_len") or row.get("context_length")
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def _has_call(answer: Any) -> bool:
    match answer:
        case {"choices": [{"message": {"tool_calls": [_, *_]}}, *_]}:
            return True
    return False


def _prompt_tokens(answer: Any) -> int | None:
    """By the backend's own count. Engines that count nothing say 0."""
    match answer:
        case {"usage": {"prompt_tokens": int(tokens)}} if tokens > 0 and not isinstance(tokens, bool):
            return tokens
    return None
