"""What is known of a model's backend: the remembered facts, the questions it is asked, and what answers show.

All requests share the memory, so no client's request may decide for another client. A fact that a request's own tools,
schema or fields may have caused holds their digest (`Fact.of`), or is remembered for that client alone
(`BackendMemory.of`).
"""

from __future__ import annotations

import enum
import functools
import importlib.util
import logging
import re
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import msgspec

from ..errors import shown
from ..formats import registry
from ..formats.base import ToolFormat
from ..formats.unparsed_calls import is_models_fault
from ..lru_cache import LRUCache, digest
from ..parsing.text.reasoning import OpenedReasoning
from ..request.parse import ChatRequest
from ..response.choice import AnswerOutcome
from ..settings import Settings
from ..usage.upstream_tokenizer import Question
from ..wire import openai
from .history import text_of

if TYPE_CHECKING:
    from .raw_prompt import RawPrompt

_log = logging.getLogger("toolcall_middleware")
REMEMBERED_SECONDS = 600.0
DOUBTFUL_SECONDS = 120.0
"""How long a doubtful conclusion is remembered."""
_REMEMBERED = 512  # facts
_LONGEST_NAME = 512  # characters
_ALL = None  # in place of a client
_ORDINARY = frozenset({
    "model", "messages", "tools", "tool_choice", "functions", "function_call", "parallel_tool_calls", "stream",
    "stream_options", "temperature", "top_p", "max_tokens", "max_completion_tokens", "n", "stop", "seed", "user",
    "presence_penalty", "frequency_penalty", "metadata", "store",
})  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_TOOLS = 32
_LIKE_A_CALL = re.compile(r"<\|?\w|\[TOOL|```|[\"'](?:name|arguments|parameters)[\"']", re.IGNORECASE)
_LOOKED_AT = 1 << 16  # characters of a message


class Topic(enum.Enum):
    """What can be known of a model. The values are names in traces."""

    TOOLS = "tools"  # whether the backend's own tool calls work: a `ToolSupport`
    REFUSES = "refuses"  # a field, a kind of constraint, a question; of: its name, and a digest of odd fields
    LEFT_OUT = "left_out"  # the keywords that a backend refuses in one schema; of: the constraint and its digest
    CALLS_COME = "calls_come"  # calls in a format reach the middleware; of: the format
    CALLS_KEPT = "calls_kept"  # the engine takes calls in a format out of the text; of: the format
    WINDOW = "window"  # how many tokens the backend's window holds
    TEMPLATE = "template"  # the template that the backend shows, as the setting `template` names one; empty: none
    NO_CALL = "no_call"  # a reason why answers hold no call was logged; of: the reason
    OPENS_THOUGHT = "opens_thought"  # whether the prompt opens a thought; of: the position of the template's switch


class Fact(NamedTuple):
    """A topic and what it is about."""

    topic: Topic
    of: tuple[str, ...] = ()


class BackendMemory:
    """Facts about backends, by model. They expire, live in the middleware's memory, and are shared by all requests."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._known = LRUCache[tuple[str, Fact, str | None], Any](max_entries=_REMEMBERED, clock=clock)
        self._clock = clock
        self._client = ""

    def of(self, client: bytes) -> BackendMemory:
        """The same memory as seen by one client, identified by a header's value."""
        if not client:
            return self
        view = BackendMemory(self._clock)
        view._known = self._known
        view._client = digest(client)
        return view

    def refuse(self, model: str, name: str) -> None:
        """Remember that the backend refuses a field or a question of this name."""
        self.note(model, Fact(Topic.REFUSES, (name,)))

    def refuses(self, model: str, name: str) -> bool:
        """Whether the backend is known to refuse it."""
        return self.recall(model, Fact(Topic.REFUSES, (name,))) is not None

    def note(
        self, model: str, fact: Fact, *, value: Any = True, own: bool = False, seconds: float | None = None
    ) -> None:
        """Remember a fact. Names longer than any real model's are ignored.

        own: for this client alone, whose own words may have caused it. seconds: None for what is usual.
        """
        if seconds is None:
            seconds = DOUBTFUL_SECONDS if own else REMEMBERED_SECONDS
        if len(model) <= _LONGEST_NAME:
            self._known.put((model, fact, self._client if own else _ALL), value, seconds=seconds)

    def recall(self, model: str, fact: Fact) -> Any:
        """The value that was noted, for this client or for all; None if nothing is remembered."""
        own = self._known.get((model, fact, self._client))
        return own if own is not None else self._known.get((model, fact, _ALL))

    def facts(self, model: str) -> list[tuple[str, tuple[str, ...], bool, Any]]:
        """All facts of a model as (topic, of, whether for this client alone, value), for traces."""
        return [
            (fact.topic.value, fact.of, client is not _ALL, value)
            for (known, fact, client), value in self._known.items()
            if known == model and client in {_ALL, self._client}
        ]


class PendingRefusals:
    """Refusals that are remembered once the backend accepts the request without what it refused: that shows the cause.

    memory, model: where they are remembered, and of what.
    """

    def __init__(self, memory: BackendMemory, model: str) -> None:
        self._memory = memory
        self._model = model
        self._pending: dict[Fact, tuple[int, str, Any, bool]] = {}

    def add(self, fact: Fact, said: str, *, level: int = logging.WARNING, value: Any = True, own: bool = False) -> None:
        """Add a refusal, and what is logged of the backend then. own: it is remembered for this client alone."""
        self._pending[fact] = level, said, value, own

    def drop(self, fact: Fact) -> None:
        """Drop a refusal: something else was refused too."""
        self._pending.pop(fact, None)

    def confirm(self) -> None:
        """The backend accepts the request."""
        for fact, (level, said, value, own) in self._pending.items():
            self._memory.note(self._model, fact, value=value, own=own, seconds=REMEMBERED_SECONDS)
            _log.log(level, "The backend of %s %s.", shown(self._model), said)
        self._pending.clear()


# -- parts of a request that may cause a refusal -------------------------------------------------------------------
#
# A backend that refuses an ordinary request would refuse it from any client. Fields that few clients send (a client's
# grammar, a penalty that an engine cannot combine with a constraint) are part of the fact that is remembered.


def odd_fields(chat: ChatRequest) -> str:
    """A digest of the fields that are not ordinary; empty if there are none."""
    odd = {name: bytes(raw) for name, raw in chat.fields.items() if name not in _ORDINARY}
    if chat.n > 1:
        odd["n"] = str(chat.n).encode()
    return digest(*(part for name in sorted(odd) for part in (name.encode(), odd[name]))) if odd else ""


def has_plain_names(chat: ChatRequest) -> bool:
    """Whether the tools' names are such that no grammar can fail for them."""
    tools = chat.tools.tools
    return len(tools) <= _MOST_TOOLS and all(_NAME.fullmatch(tool.name) for tool in tools)


def has_call_markup(chat: ChatRequest) -> bool:
    """Whether the conversation holds markup of calls, which a model may only repeat."""
    return any(_LIKE_A_CALL.search(text_of(message.get("content"))[:_LOOKED_AT]) for message in chat.messages)


# -- whether the backend calls tools itself, how large its window is, which chat template it has --------------------
#
# llama.cpp serves its template at `/props`, and whether the template takes tools. Any other backend is asked for the
# token counts of a prompt with and without a tool: if the tool adds none, it was dropped. The prompt is a short
# conversation of the middleware, so that no client's text decides.


FACT = Fact(Topic.TOOLS)
WINDOW = Fact(Topic.WINDOW)
TEMPLATE = Fact(Topic.TEMPLATE)
_UNKNOWN_WINDOW = 0
_SERVER_ERROR = 500
_LEAST_GROWTH = 3  # tokens: a template may write the time of day, and no tool is as short
_TOOL_WORDS = ("tool", "function", "extra inputs", "extra fields", "unknown field", "unrecognized", "jinja")
_STATUSES = frozenset({400, 404, 422, 500, 501})  # of responses that refuse tools
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

    CALLS = "calls"  # the model made a call of its own choice
    SHOWN = "shown"  # tools reach the model
    NONE = "none"  # tools are refused or dropped, or calls are not emitted as calls
    DOUBTED = "doubted"  # tools of one request were refused; the backend has to be asked again


NATIVE = frozenset({ToolSupport.CALLS, ToolSupport.SHOWN})


class BackendReply(NamedTuple):
    """The backend's answer to a question."""

    status: int
    body: bytes


class Evidence(NamedTuple):
    """What answers show; None if they show nothing."""

    support: ToolSupport | None = None
    window: int | None = None
    """In tokens."""
    props: Any = None
    """The JSON of `/props`; None without a usable answer."""
    is_sure: bool = True
    """The backend answered: it was neither silent nor starting."""


Questions = Generator[Question, "BackendReply | None", Evidence]
"""Yields questions, takes the answers (None if there was none), returns what they show."""


@dataclass(frozen=True, slots=True)
class PendingProof:
    """Evidence that a request waits for. A host asks the `questions`, and passes the result to `derive` in a thread and
    then to `learn`.

    support, window, template: whether each of them is needed.
    """

    model: str
    memory: BackendMemory
    support: bool = True
    window: bool = False
    template: bool = False

    @property
    def is_due(self) -> bool:
        """Whether the backend still has to be asked: another request may have done so meanwhile."""
        support, window, template = (self.memory.recall(self.model, fact) for fact in (FACT, WINDOW, TEMPLATE))
        return (
            (self.window and window is None)
            or (self.support and support in {None, ToolSupport.DOUBTED})
            or (self.template and template is None and support not in NATIVE)
        )

    def questions(self) -> Questions:
        """The questions for the backend."""
        reply = yield Question(f"/props?model={quote(self.model, safe='')}")
        props, is_sure = _value(reply), reply is not None and reply.status < _SERVER_ERROR
        support = window = None
        match props:
            case {"default_generation_settings": {"n_ctx": int(tokens)}} if self.window and tokens > 0:
                window = tokens  # of one slot
        if self.window and window is None:
            window = _window_in_models(_value((yield Question("/v1/models"))), self.model)
        match props:
            case {"chat_template_caps": {"supports_tools": bool(takes)}} if self.support:
                support = ToolSupport.SHOWN if takes else ToolSupport.NONE
        if self.support and support is None:
            support = yield from _support(self.model)
        return Evidence(support, window, props, is_sure)

    def derive(self, evidence: Evidence) -> str | None:
        """The name of the template in the evidence's `props`. Empty if there is no template, or no family derives from
        it; None if no template is needed. Takes seconds, so it must not run in an event loop.
        """
        if not self.template or evidence.support in NATIVE:
            return None
        if evidence.props is None:
            return ""
        from ..formats.template import sources

        return sources.of_props(self.model, evidence.props)

    def learn(self, evidence: Evidence, template: str | None = None) -> None:
        """Remember what the answers showed. template: the result of `derive`."""
        if template is not None:
            seconds = REMEMBERED_SECONDS if evidence.is_sure else DOUBTFUL_SECONDS
            self.memory.note(self.model, TEMPLATE, value=template, seconds=seconds)
        if self.window:
            self.memory.note(self.model, WINDOW, value=evidence.window or _UNKNOWN_WINDOW)
            size = "no window is known" if evidence.window is None else f"a window of {evidence.window} tokens"
            _log.info("The backend of %s: %s.", shown(self.model), size)
        if self.support:
            self.memory.note(self.model, FACT, value=evidence.support)
            said = {None: "nothing shows whether tools reach it", ToolSupport.NONE: "tools go by prompt"}
            _log.info("The backend of %s: %s.", shown(self.model), said.get(evidence.support, "tools reach the model"))


def support_of(chat: ChatRequest, settings: Settings, memory: BackendMemory) -> ToolSupport | None:
    """The tool support of the model that a request names. Providers of other APIs than OpenAI's take tools."""
    known = memory.recall(chat.model, FACT)
    if known is None:
        return ToolSupport.SHOWN if settings.upstream_api != "openai" else None
    return ToolSupport(known)


def proof_for(chat: ChatRequest, settings: Settings, memory: BackendMemory) -> PendingProof | None:
    """The evidence that a request waits for; None if it needs none."""
    if not chat.offers_tools:
        return None
    known = support_of(chat, settings, memory)
    support = settings.mode == "auto" and known in {None, ToolSupport.DOUBTED}
    window = settings.tools_budget == "auto" and memory.recall(chat.model, WINDOW) is None
    by_prompt = settings.mode == "prompt" or (settings.mode == "auto" and known not in NATIVE)
    template = by_prompt and _may_show_template(settings) and memory.recall(chat.model, TEMPLATE) is None
    template = template and registry.family_of(chat.model) is None
    wanted = support or window or template
    return PendingProof(chat.model, memory, support, window, template) if wanted else None


def template_of(model: str, settings: Settings, memory: BackendMemory) -> str | None:
    """The template that shows how a model calls: the one in the settings, else the one that its backend serves."""
    return settings.template or memory.recall(model, TEMPLATE) or None


def _may_show_template(settings: Settings) -> bool:
    """Whether the backend may be a llama.cpp server whose template is useful. An app in this process is not such a
    server; it is only asked if `mode=auto` has to ask it anyway.
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


def _support(model: str) -> Generator[Question, BackendReply | None, ToolSupport | None]:
    body = {"model": model, "messages": _MESSAGES}
    reply = yield from _completion({**body, "tools": [_TOOL]})
    if reply is None:
        return None
    if reply.status != 200:
        return ToolSupport.NONE if refuses_tools(reply.status, _said(reply)) else None
    answer = _value(reply)
    match answer:
        case {"choices": [{"message": {"tool_calls": [_, *_]}}, *_]}:
            return ToolSupport.CALLS
    with_tool = _prompt_tokens(answer)
    reply = None if with_tool is None else (yield from _completion(body))
    without = _prompt_tokens(_value(reply))
    if with_tool is None or without is None:
        return None
    return ToolSupport.SHOWN if with_tool - without >= _LEAST_GROWTH else ToolSupport.NONE


def _completion(body: Mapping[str, Any]) -> Generator[Question, BackendReply | None, BackendReply | None]:
    """The answer to a chat completion of one token."""
    reply = yield Question(None, msgspec.json.encode({**body, "max_tokens": 1}))
    if reply is not None and reply.status != 200 and _NEWER_LIMIT in _said(reply):
        reply = yield Question(None, msgspec.json.encode({**body, _NEWER_LIMIT: 1}))
    return reply


def _said(reply: BackendReply) -> str:
    return reply.body.decode("utf-8", "replace").lower()


def _value(reply: BackendReply | None) -> Any:
    """The JSON of an answer of status 200; None without one."""
    return None if reply is None or reply.status != 200 else openai.read_value(reply.body)


def _window_in_models(listed: Any, model: str) -> int | None:
    """`max_model_len` of this model, or of the only one (vLLM, SGLang); several gateways call it `context_length`."""
    rows = listed.get("data") if isinstance(listed, dict) else None
    rows = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    row = next((row for row in rows if row.get("id") == model), rows[0] if len(rows) == 1 else {})
    tokens = row.get("max_model_len") or row.get("context_length")
    return tokens if isinstance(tokens, int) and tokens > 0 else None


def _prompt_tokens(answer: Any) -> int | None:
    """The prompt's tokens by the backend's count; None if it counts nothing, where engines say 0."""
    match answer:
        case {"usage": {"prompt_tokens": int(tokens)}} if tokens > 0 and not isinstance(tokens, bool):
            return tokens
    return None


# -- the format of a prompt, and whether its answer begins in a thought ----------------------------------------------
#
# An engine that parses a family's calls by itself removes them from the text, whatever was asked: vLLM does so for
# gpt-oss. If it emits them as calls, they are read as calls (response/native_calls.py). If not, only the count of
# tokens is left of the answer. Then the prompt asks for `json`, which no engine parses as markup.
#
# The count is the backend's: it is requested for streams too, until the first call of a model in the format. A backend
# that does not count shows nothing, because an empty answer and one whose text was removed are the same bytes. A
# format in the settings is not replaced, and with `usage=count` the backend's count is not requested.
#
# An answer begins in reasoning if the chat template opens it in the prompt: then it holds the closing tag without the
# opening one. Names of models identify the families whose template does so (formats/registry.py). For other models the
# first answer with such a closing tag shows it. What an answer shows, also that expected reasoning did not end, is
# remembered for its client alone, since a client can make a model write `</think>`.


LEAST_TOKENS = 8
"""The least count of an empty answer that shows a removed call: fewer tokens may be the end of a turn."""
_LEAST_BYTES = 3
"""The least bytes of a reasoning token, so that text is never undercounted: Chinese has three bytes a character."""
_PLAIN = "json"


class PromptFormat:
    """The format of one request's prompt. `chosen`: the format object. `why`: the reason, for readers of a trace."""

    def __init__(self, chat: ChatRequest, settings: Settings, memory: BackendMemory) -> None:
        self._chat = chat
        self._settings = settings
        self._memory = memory
        template = template_of(chat.model, settings, memory)
        self.chosen: ToolFormat = registry.for_model(settings.format, chat.model, template)
        self.why = f"format={settings.format} ({settings.source('format')})"
        if settings.format == "auto":
            name = shown(chat.model)
            if self.name == registry.TEMPLATE:
                self.why += f"; by template: the name {name} tells no family, template={template} does"
            elif registry.get("auto") is not self.chosen:
                self.why += f"; by name: {name} tells the family"
            else:
                self.why += f"; by markers: the name {name} tells no family, and no template does"
            if self.name != _PLAIN and memory.recall(chat.model, self._fact()):
                self.chosen = registry.in_json(self.chosen)
                self.why += ", whose own calls its engine took out of the text"

    @property
    def name(self) -> str:
        """The name of the format that the prompt is written in."""
        return registry.prompt_name(self.chosen)

    @property
    def is_doubtful(self) -> bool:
        """Whether calls may get lost in this format, as none was seen. Then the count of an empty answer is needed."""
        settings, model = self._settings, self._chat.model
        if settings.format != "auto" or settings.upstream_api != "openai" or settings.usage == "count":
            return False
        return self._chat.offers_tools and self.name != _PLAIN and not self._memory.recall(model, self._proof())

    def prove(self) -> None:
        """Remember that a call in this format was read."""
        self._memory.note(self._chat.model, self._proof())

    def _proof(self) -> Fact:
        return Fact(Topic.CALLS_COME, (self.name,))

    def is_swallowed(self, outcome: AnswerOutcome, completion_tokens: int | None) -> bool:
        """Whether an answer shows that the engine removes calls of this format from the text.

        If so it is remembered, and the prompt has to be written anew. completion_tokens: the backend's count,
        without the tokens of hidden reasoning.
        """
        if not outcome.silent or outcome.cut or self.name == _PLAIN or not self._chat.offers_tools:
            return False
        if (completion_tokens or 0) - outcome.thought_bytes / _LEAST_BYTES < LEAST_TOKENS:
            return False
        model, fact, chat = self._chat.model, self._fact(), self._chat
        if self._settings.format != "auto":
            if not self._memory.recall(model, fact):
                self._memory.note(model, fact)
                _log.warning("%s; format=auto would ask for json then.", self._fault())
            return False
        _log.warning("%s: the prompt asks for json for a while.", self._fault())
        self._memory.note(model, fact, own=bool(chat.stop or odd_fields(chat) or has_call_markup(chat)))
        self.chosen = registry.in_json(self.chosen)
        return True

    def _fault(self) -> str:
        model = shown(self._chat.model)
        return f"An answer of {model} was empty, though tokens were counted: its engine may keep {self.name} calls"

    def _fact(self) -> Fact:
        return Fact(Topic.CALLS_KEPT, (self.name,))


_SWITCHES = ("enable_thinking", "thinking")
"""The names of the switch for thinking in `chat_template_kwargs`, by template."""


class ReasoningStart:
    """Whether the answers to one request are expected to begin in reasoning. fmt: the prompt's format."""

    def __init__(self, chat: ChatRequest, settings: Settings, memory: BackendMemory, fmt: ToolFormat) -> None:
        self._model = chat.model
        self._memory = memory
        self._fmt = fmt
        self._start = settings.reasoning_start
        self._switch = _switch(chat)
        # A template with a switch has one fact for each position of the switch.
        self._fact = Fact(Topic.OPENS_THOUGHT, () if self._switch is None else (str(self._switch),))

    def opened(
        self, *, constrained: bool, prompt: RawPrompt | None = None, unparsed: str | None = None
    ) -> OpenedReasoning | None:
        """The reasoning that the next answer begins in, if any. constrained: it is JSON from its first character.

        prompt: the one that is written here, which shows it. unparsed: the answer, if the backend could not parse it.
        """
        if constrained or self._start == "closed":
            return None
        tags = registry.thoughts_of(self._fmt, self._model).tags
        if self._start == "open":
            opened: OpenedReasoning | None = tags
        elif prompt is not None:
            opened = prompt.opened
        elif self._switch is False:
            opened = None
        elif self._known is None:
            opened = registry.opened_reasoning(self._model)
        else:
            opened = tags if self._known else None
        # A backend that could not parse an answer may have removed the reasoning from it.
        is_out = opened is not None and unparsed is not None and opened.close not in unparsed
        return None if is_out else opened

    def guesses(self, prompt: RawPrompt | None) -> bool:
        """Whether `opened` is a guess: neither a setting nor the prompt shows it."""
        return prompt is None and self._start == "auto"

    @property
    def _known(self) -> bool | None:
        known = self._memory.recall(self._model, self._fact)
        return known if isinstance(known, bool) else None

    def learn(self, opened: bool | None) -> None:  # noqa: FBT001 - what the answer showed, as it says it
        """Remember whether the prompt opens reasoning, as an answer showed; None: it showed nothing."""
        if self._start != "auto":
            return
        if opened is None and self._known is False:
            opened = False  # the answer confirms what is known
        if opened is not None:
            self._memory.note(self._model, self._fact, value=opened, own=True, seconds=REMEMBERED_SECONDS)


def _switch(chat: ChatRequest) -> bool | None:
    """Whether the request turns thinking on or off; None if the template decides."""
    given = openai.read_value(chat.fields.get("chat_template_kwargs"))
    for name in _SWITCHES if isinstance(given, dict) else ():
        if isinstance(on := given.get(name), bool):
            return on
    return None
