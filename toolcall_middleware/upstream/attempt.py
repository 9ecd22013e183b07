"""A request with tools as it is sent to the backend: the prompt and the body of each attempt, and which answer needs
another attempt. negotiation.py decides what is requested, and learns from the answers.

In the prompt, text replaces tools, calls and results. The tool block comes first and depends on the tools alone, so
that a backend's prefix cache keeps working. What `tool_choice` asks for comes last, before the text of the last user
message: after it, small models take it for the question (tests/bench/README.md).
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ..errors import ToolCallError
from ..formats import registry
from ..formats.answer_text import JsonAnswer
from ..formats.base import ToolFormat
from ..formats.prompt import escaping
from ..formats.registry import thoughts_of
from ..json_schema.compact import compact_schema
from ..lru_cache import LRUCache
from ..model import ChoiceMode
from ..observe.json_log import log_event
from ..request.parse import ChatRequest
from ..request.tools import provider_tools
from ..response.choice import AnswerOutcome, ChoiceAnswer, choice_maker
from ..response.inner_calls import Asked
from ..response.message import AnswerPolicy, Extension
from ..response.outcome import CallReport
from ..response.stream import Hold, hold_for
from ..settings import Settings
from ..usage.meter import meter_for
from ..wire import openai
from ..wire.json_input import let_go
from . import history
from .actions import Ask, Facts
from .backend_memory import BackendMemory, PromptFormat, ReasoningStart
from .negotiation import Negotiation, Next
from .tool_budget import FIND_TOOLS, ToolBudget

if TYPE_CHECKING:
    from ..model import Tool
    from .raw_prompt import RawPrompt


_NOT_FOR_TEXT = frozenset({"tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"})
_BARE = 'JSON of the form {"tool_calls": [{"name": "<tool>", "arguments": {...}}]}, whatever was said about tags'
_ANSWER = "nswer with nothing but JSON that fits this JSON Schema: "  # after "A" or "a"


class SentConversation:
    """The conversation as it is sent to the backend, natively or by prompt, with the messages that attempts add.

    messages: those of the current attempt; empty if the client's are sent unchanged. raw: set if a template writes the
    prompt. bare: the prompt asks for bare JSON.
    """

    def __init__(self, chat: ChatRequest, settings: Settings, tools: ToolBudget) -> None:
        self._chat = chat
        self._settings = settings
        self._tools = tools
        self._added = ""  # the text that the prompt adds to the conversation
        self.messages: list[dict[str, Any]] = []
        self.raw: RawPrompt | None = None
        self.bare = False

    def natively(self) -> None:
        """Set the messages for a backend that takes tools."""
        settings = self._settings
        limit, own, foreign = settings.max_result_bytes, settings.rewrite_ids, settings.upstream_api != "openai"
        self.messages = history.for_backend(self._chat.messages, limit, own_ids=own, knows_errors=foreign) or []

    def by_prompt(self, fmt: ToolFormat, answer: Mapping[str, Any] | None, *, bare: bool) -> None:
        """Set the messages for a backend that takes no tools, without those that earlier attempts added.

        answer: the JSON Schema that the client asks of an answer in text. bare: required calls are constrained to bare
        JSON, whatever the format, and the prompt asks for the same.
        """
        tools, settings = self._tools, self._settings
        if settings.send == "completions":
            from .raw_prompt import raw_prompt  # with all that reads templates

            self.raw = raw_prompt(tools.shown, settings, fmt)
        self.bare = bare
        last = wish(tools.held, fmt, bare=bare)
        if answer is not None:
            words = f"If you call no tool, a{_ANSWER}" if tools.held.offers_tools else f"A{_ANSWER}"
            last = history.joined([last, words + escaping.as_data(escaping.dump(compact_schema(answer)))])
        # The front depends on the tools alone.
        front = _tool_block(tools.shown, tools.block or fmt, settings)
        self._added = history.joined([front, last])
        self.messages = self._plain(fmt, front)
        for messages in (self.messages, None if self.raw is None else self.raw.messages):
            if last and messages is not None:
                _put_before_last(messages, last)

    def _plain(self, fmt: ToolFormat, front: str) -> list[dict[str, Any]]:
        """The conversation for a text backend: the tool block precedes it.

        `messages=plain` gives at most one system message, then alternating roles, `role` and `content` alone.
        `messages=keep` keeps messages without calls and results unchanged, except the two that the prompt is
        added to.
        """
        chat, settings = self._tools.shown, self._settings
        limit, names = settings.max_result_bytes, chat.listed.by_name
        given = history.with_user(chat.messages) if getattr(fmt, "needs_user", False) else chat.messages
        if settings.messages == "keep":
            messages = history.without_calls(given, fmt, max_result_bytes=limit, offered=names)
        else:
            thoughts = thoughts_of(fmt, chat.model)
            system, messages = history.plain(
                given, fmt, max_result_bytes=limit, offered=names, thoughts=thoughts, model=chat.model
            )
            front = history.joined([front, system])
        if front:
            _put_in_front(messages, front, settings.system_role)
        return messages

    def go_on(self, more: list[dict[str, Any]], for_template: list[dict[str, Any]]) -> None:
        """Add messages at the end, for another attempt."""
        self.messages = [*(self.messages or self._chat.messages), *more]
        if self.raw is not None:
            self.raw.messages = [*self.raw.messages, *for_template]

    def injected(self, *, native: bool) -> str:
        """The text that is added to the conversation, if that is reported."""
        is_reported = self._settings.extension_field is not None and self.raw is None
        return self._added if is_reported and not native else ""

    def body(self, fmt: ToolFormat | None, extra: Mapping[str, Any]) -> bytes:
        """The body of the next attempt: the client's, its fields byte for byte and in order, without what such a
        backend refuses.

        fmt: the prompt's format; None for native tools. extra: fields to set, in the place where the client sent them;
        None removes a field. `drop_params` is applied last.
        """
        fields = self._native_fields() if fmt is None else self._text_fields(fmt)
        if self._chat.offers_tools:
            fields.pop("stop", None)  # a backend would cut calls at it: the middleware ends text itself
        for name, value in extra.items():
            if value is None:
                fields.pop(name, None)
            else:
                fields[name] = value
        for name in self._settings.drop_params:
            if name != "messages":
                fields.pop(name, None)
        if self.raw is not None:
            self.raw.plain = self.messages
            if self.raw.tools:
                fields["tools"] = openai.raw(self.raw.tools)
        return msgspec.json.encode(fields)

    def _text_fields(self, fmt: ToolFormat) -> dict[str, Any]:
        """The fields for a text backend."""
        chat = self._chat
        fields: dict[str, Any] = {name: value for name, value in chat.fields.items() if name not in _NOT_FOR_TEXT}
        fields["messages"] = self.messages if self.raw is None else self.raw.messages
        if _wants_special_tokens(chat, fmt, self._settings):
            fields.setdefault("skip_special_tokens", False)
        return fields

    def _native_fields(self) -> dict[str, Any]:
        """The fields for a backend that takes tools: the client's, except `stop` and those that it may not know.

        Deprecated functions and custom tools become function tools.
        """
        chat = self._tools.shown
        fields: dict[str, Any] = dict(chat.fields)
        if chat.legacy or chat.custom or chat is not self._chat:
            functions = [_function_tool(tool) for tool in chat.tools.tools]
            fields["tools"] = [*functions, *(provider_tools(fields["tools"]) if chat.provider else ())]
        if chat.legacy or chat.custom:
            fields.pop("functions", None)
            fields.pop("function_call", None)
            fields["messages"] = chat.messages
            choice: Any = chat.choice.mode.value
            if chat.choice.name is not None:
                choice = {"type": "function", "function": {"name": chat.choice.name}}
            fields["tool_choice"] = choice
        if self.messages:
            fields["messages"] = self.messages
        if not chat.choice.parallel and chat.choice.mode is not ChoiceMode.NAMED:
            fields["parallel_tool_calls"] = False
        return fields


def wish(chat: ChatRequest, fmt: ToolFormat, *, bare: bool) -> str:
    """The text that asks the model for what `tool_choice` demands."""
    if not chat.offers_tools:
        return ""
    if bare:
        from ..formats.family import choice_text  # which imports the shapes of calls

        return choice_text(chat.tools.tools, chat.choice, noun="tool", answer=_BARE)
    return fmt.render_choice(chat.tools.tools, chat.choice)


def _function_tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    if tool.strict:
        function["strict"] = True
    return {"type": "function", "function": function}


def _wants_special_tokens(chat: ChatRequest, fmt: ToolFormat, settings: Settings) -> bool:
    wanted = settings.special_tokens
    return chat.offers_tools and (wanted == "on" or (wanted == "auto" and bool(getattr(fmt, "special_tokens", False))))


def _put_in_front(messages: list[dict[str, Any]], front: str, role: str) -> None:
    """Put `front` into the first message of `role` (`system` and `developer` are one), else into a new message."""
    wanted = {"user"} if role == "user" else {"system", "developer"}
    for place, message in enumerate(messages):
        if message.get("role") in wanted:
            content = message.get("content")
            messages[place] = {**message, "content": history.appended(front, content if content is not None else "")}
            return
        if role == "user" and message.get("role") == "assistant":
            break  # templates without a system role want the user to begin
    messages.insert(0, {"role": role, "content": front})


def _put_before_last(messages: list[dict[str, Any]], text: str) -> None:
    """Put `text` before the content of the last message if that is the user's, else into a user message of its own.

    All messages before it keep their bytes.
    """
    if messages and messages[-1].get("role") == "user":
        last = messages[-1]
        messages[-1] = {**last, "content": history.appended(text, last.get("content") or "")}
    else:
        messages.append({"role": "user", "content": text})


def _tool_block(chat: ChatRequest, fmt: ToolFormat, settings: Settings) -> str:
    if not chat.offers_tools:
        return ""
    parallel = _block_parallel(chat, settings)
    # The bound method identifies the format object, as two formats of one name may render differently. The names are
    # in the key because a guard may offer fewer tools than the client sent.
    key = (fmt.render_tools, parallel, chat.tools_raw, tuple(chat.tools.by_name))
    block = _BLOCKS.get(key)
    if block is None:
        tools = chat.tools.tools
        # Without any tool, the block would not say how to call.
        front = [tool for tool in tools if not tool.loaded] or tools
        block = fmt.render_tools(front, parallel=parallel)
        _BLOCKS.put(key, block, size=len(chat.tools_raw) + len(block))
    return block


def _block_parallel(chat: ChatRequest, settings: Settings) -> bool:
    """Whether the block allows several calls. A named tool is requested at the end and must not change the block."""
    if chat.choice.mode is not ChoiceMode.NAMED:
        return chat.choice.parallel
    asked = chat.fields.get("parallel_tool_calls")
    return not chat.legacy and settings.parallel != "never" and (asked is None or bytes(asked).strip() != b"false")


_BLOCKS: LRUCache[Any, str] = LRUCache(max_entries=64, max_size=16 << 20)
"""Tool blocks by their inputs; sizes are in bytes. Agents send the same tools at every turn."""


_log = logging.getLogger("toolcall_middleware")
_CALL_NOW = "Call a tool now."
_EMPTY = "Your answer is empty. Answer in words, or call a tool."
_MISFIT = frozenset({"invalid_tool_arguments"})  # of a strict tool, where arguments are not validated
_RETRIED: dict[str, frozenset[str]] = {
    "off": _MISFIT,
    "warn": _MISFIT,
    "error": frozenset(),
    "retry": _MISFIT | {"malformed_tool_arguments", "unknown_tool_call"},
}
"""The codes of refused calls after which the model is asked again, by the setting `validate_arguments`."""
_MAX_SHOWN = 500


class ToolRequest:
    """One request with tools. `first` asks the backend; `next` is set if it is to be asked again.

    extension: adds remarks to calls. lowers_limit: see `Negotiation`. `usage` counts over all attempts, `why` is the
    reason for the current attempt, `decisions` are those so far: what was decided, its value and the reason, for
    readers of a trace.
    `unparsed` is the text of the current answer if the backend could not parse it and put it in its error.
    """

    def __init__(
        self,
        chat: ChatRequest,
        settings: Settings,
        memory: BackendMemory,
        extension: Extension | None,
        *,
        lowers_limit: bool = False,
    ) -> None:
        self.chat = chat
        self.model = chat.model
        counted = chat.include_usage or not chat.stream
        self.usage = meter_for(settings, chat.model, memory, wanted=counted)
        self.usage.limit = _token_limit(chat)
        self.next: Ask | None = None
        self.unparsed: str | None = None
        self.report = CallReport(chat.model)
        self._retried = False
        self._asked_whole = False
        self._was_empty = False  # an empty answer was retried
        self._sent = b""  # the body of the current attempt
        self.settings = settings
        self.extension = extension
        schema = self._answer_schema() if settings.structured != "off" else None
        self.json = None if schema is None else JsonAnswer(schema, settings.max_response_bytes, settings.retries)
        self._negotiation = Negotiation(chat, settings, memory, lowers_limit=lowers_limit)
        self.tools = ToolBudget(chat, settings, memory)
        self.memory = memory
        self._talk = SentConversation(chat, settings, self.tools)
        self._attempts = 1  # not counting those that only leave out what the backend refused
        self.why = "first"
        self.decisions: list[tuple[str, str, str]] = []

    @functools.cached_property
    def _format(self) -> PromptFormat:
        """The prompt's format. It is chosen after the backend was asked for its template, if it has to be asked."""
        return PromptFormat(self.chat, self.settings, self.memory)

    @functools.cached_property
    def _reasoning_start(self) -> ReasoningStart:
        return ReasoningStart(self.chat, self.settings, self.memory, self._format.chosen)

    def facts(self, error: ToolCallError | None) -> Facts:
        """The facts for observers. error: the one that ended the answer."""
        return Facts(
            usage=self.usage,
            mode="native" if self.native else "prompt",
            model=self.model,
            stream=self.chat.stream,
            format="auto" if self.native else self._format.name,
            constraint=self._negotiation.kind,
            why=self.why,
            outcomes=tuple(call.outcome.value for call in self.report.calls),
            no_call=self.report.no_call,
            decisions=self.decisions,
            error=error,
        )

    def decide(self, what: str, value: str, why: str) -> None:
        """Add a decision, and log it at DEBUG without text of a model or a backend."""
        self.decisions.append((what, value, why))
        # The reason for asking again quotes the answer. The code in `value` is enough.
        fields = {"model": self.model[:_MAX_SHOWN], "what": what, "value": value}
        log_event(_log, logging.DEBUG, "decision", {**fields, "why": "" if what == "ask again" else why})

    def let_go(self) -> None:
        """Free the conversation, in steps. The request is over."""
        let_go(self._talk.messages, self.chat.messages)

    @property
    def native(self) -> bool:
        """Whether the tools are sent to the backend."""
        return self._negotiation.native

    @property
    def may_ask_again(self) -> bool:
        """Whether an answer without text and calls is retried."""
        chat = self.chat
        free = chat.offers_tools and not (chat.choice.must_call or self._negotiation.is_trial)
        ours = self.settings.upstream_api == "openai"  # else the answer may hold what no chat completion shows
        return free and ours and self.settings.retries > 0 and not self._was_empty

    @property
    def ends_itself(self) -> bool:
        """Whether the answer is constrained to one call, after which the backend ends it, at once or soon."""
        choice = self.chat.choice
        is_held = self.native or self._negotiation.asked is not None
        return self.tools.chooses or (choice.must_call and not choice.parallel and is_held)

    def hold(self, *, checked: bool) -> Hold:
        """What a stream of the current attempt waits for. checked: see `hold_for`."""
        held = bool(self._negotiation.held)
        return hold_for(self.chat, self.settings, must_call=self._negotiation.is_trial, checked=checked, refuses=held)

    @property
    def note(self) -> str:
        """How the backend is asked, for the response's header."""
        again = ("; retried=1" if self._was_empty else "") + self.tools.note
        if self.native:
            return f"mode=native; format=auto{again}"
        raw = "" if self._talk.raw is None else "; send=completions"
        return f"mode=prompt; format={self._format.name}{raw}{again}"

    @property
    def syntax(self) -> ToolFormat:
        """The format of the calls. Those that the backend could not parse may be in another than the prompt's."""
        return registry.get("auto") if self.native or self.unparsed is not None else self._format.chosen

    @property
    def make_choice(self) -> Callable[[], ChoiceAnswer]:
        """A factory of readers for the choices of this attempt. It holds no reference that leads back to a reader: a
        reference cycle would keep an answer in memory until the garbage collector runs.
        """
        self.report.how = self.note
        known = AnswerPolicy(
            chat=self.tools.read,
            settings=self.settings,
            native=self.native,
            constrained=self._negotiation.asked is not None,
            strict=self._negotiation.strict,
            held=self._negotiation.held,
            full=self.usage.full,
            extension=self.extension,
            report=self.report,
            retried=self._retried,
        )
        hold = None if self.native or self.json is None else self.json.begin()
        start, bare = self._reasoning_start, self._negotiation.is_bare
        opened = start.opened(constrained=bare, prompt=self._talk.raw, unparsed=self.unparsed)
        sure, inner = not start.guesses(self._talk.raw), self.tools.inner
        return choice_maker(known, self.syntax, opened=opened, sure=sure, hold=hold, inner=inner)

    # -- bodies --------------------------------------------------------------------------------------------------

    def first(self) -> Ask:
        """Make the first attempt."""
        self.decide("format", self._format.name, self._format.why)
        self._negotiation.begin()
        if not self.native:
            return self._by_prompt()
        self.tools.natively()
        self._talk.natively()
        return self._ask()

    def sends(self, ask: Ask) -> Ask:
        """Return `ask`, whose body is sent to the backend unchanged, and count it."""
        self._sent = ask.body
        self.usage.sent(ask.body)
        return ask

    def _by_prompt(self) -> Ask:
        """Ask a backend that takes no tools."""
        self.tools.by_prompt(self._format.chosen)
        self._negotiation.by_prompt(self._format.chosen, self.tools.held, watch=self._format.is_doubtful)
        self._write_prompt()
        return self._ask()

    def _write_prompt(self) -> None:
        negotiation = self._negotiation
        if self.tools.chooses and negotiation.asked is None:
            self.tools.chooses = False
            self.decide("choose", "off", "the backend takes no constraint that it is asked for")
        self._talk.by_prompt(self._format.chosen, self._answer_schema(), bare=negotiation.is_bare)

    def _ask(self) -> Ask:
        talk, settings, negotiation = self._talk, self.settings, self._negotiation
        body = self._sent = talk.body(None if self.native else self._format.chosen, negotiation.extra)
        self.usage.sent(body, talk.injected(native=self.native))
        if self.tools.form != "full":
            self.decide("tools", self.tools.form, f"tools_budget={settings.tools_budget}")
        known = ""
        if settings.mode == "auto":
            support = negotiation.support
            known = f"; native calls: {'not known' if support is None else support.value}"
        self.decide("mode", "native" if self.native else "prompt", f"mode={settings.mode}{known}; attempt: {self.why}")
        if not self.native:
            if settings.send != "chat":
                self.decide("send", "chat" if talk.raw is None else "completions", f"send={settings.send}")
            self.decide("constraint", negotiation.kind or "none", f"constrain={settings.constrain}")
        return Ask(body, talk.raw)

    def _answer_schema(self) -> Mapping[str, Any] | None:
        """The schema that the client asks of an answer in text; None without a schema, or if a call is required."""
        chat, asked = self.chat, self.chat.offers_tools or self.settings.structured == "prompt"
        return chat.answer_schema if asked and not chat.choice.must_call else None

    # -- another attempt -----------------------------------------------------------------------------------------

    def repairs(self, error: ToolCallError) -> bool:
        """Whether a refused request is sent again. Left out are fields added here and optional ones of the client."""
        todo = self._negotiation.after_refusal(error)
        if todo is Next.GIVE:
            return False
        said = f"{error.status}: {error.message[:_MAX_SHOWN]}"
        self._ask_because("tools_refused" if todo is Next.PROMPT else "field_refused", said)
        if todo is Next.PROMPT:
            self.next = self._by_prompt()
            return True
        free = self.tools.chooses and self._negotiation.asked is None
        if not self.native and self._attempts == 1 and (free or self._talk.bare is not self._negotiation.is_bare):
            self._write_prompt()
        self.next = self._ask()
        return True

    def asks_whole(self) -> bool:
        """Retry an empty stream once, without streaming: llama-cpp-python then says why it refuses. Whether it does."""
        if self._asked_whole:
            return False
        self._asked_whole = True
        self._ask_because("empty_stream", "the stream held no event")
        body = openai.without_field(openai.without_field(self._sent, "stream"), "stream_options")
        self.next = Ask(body, self._talk.raw)
        self.usage.sent(body)
        return True

    def is_accepted(self) -> None:
        """The backend accepts the body as it is."""
        self._negotiation.refusals.confirm()

    def retries(self, error: ToolCallError) -> bool:
        """Whether a refused call is retried. Only called if nothing was sent to the client."""
        if error.code not in _RETRIED[self.settings.validate_arguments] or not self._negotiation.attempts_left:
            return False
        self._negotiation.attempts_left -= 1
        self._ask_because(error.code, error.message)
        self._again(error.written, f"{_to_model(error.message)} Correct the call and write it again, and nothing else.")
        return True

    def is_settled(self, outcome: AnswerOutcome, *, left: bool) -> bool:
        """Whether this answer is final. If not, another attempt is set up.

        left: some of it was sent to the client. Raises ToolCallError if `tool_choice` asks for a call, none came, and
        there is no attempt left.
        """
        if outcome.asked is not None:
            self._answer(outcome.asked)
            return False
        if self._talk.raw is None:
            self._reasoning_start.learn(outcome.opened)
        if not self.native and outcome.calls:
            self._format.prove()
        by_prompt, negotiation = not self.native, self._negotiation
        # The engine removed the call from the text.
        swallowed = by_prompt and self._format.is_swallowed(outcome, self.usage.shown_tokens)
        if swallowed and not left:
            self.decide("format", self._format.name, "the engine seems to keep the family's own calls")
            self._ask_by_prompt("call_swallowed", "the answer is empty, though tokens were counted")
        elif self.chat.choice.must_call and not outcome.satisfied:
            self._call_now(outcome)
        elif by_prompt and self.json is not None and self.json.misses(cut=outcome.cut, left=left):
            self._ask_because("misfit", self.json.misfit)
            self._again(self.json.text, self.json.wish)
        elif negotiation.after_answer(outcome) is Next.PROMPT and not left:
            self._ask_by_prompt("tools_lost", "the tools did not reach the model, or its call got lost")
        elif _is_empty(outcome) and not left and self.may_ask_again:
            self._was_empty = True  # agents stop at such an answer
            self._ask_because("empty_answer", "the model ended without a word or a call")
            self._again("", _EMPTY)
        return self.next is None

    def _answer(self, asked: Asked) -> None:
        """Set up another attempt with the result of a call that the middleware answers."""
        self._ask_because(FIND_TOOLS, f"{asked.name}: {asked.arguments[:_MAX_SHOWN]}")
        texts, calls = self.tools.answer(asked, self._format.chosen)
        self._go_on(calls if self.native else texts, calls)

    def _call_now(self, outcome: AnswerOutcome) -> None:
        """Set up another attempt after an answer without the call that `tool_choice` asks for. Raises ToolCallError."""
        todo = self._negotiation.after_broken_promise(cut=outcome.cut, text=outcome.text)
        detail = "tool_choice asks for a call, and none came"
        if todo is Next.PROMPT:
            self._ask_by_prompt("no_call", detail)
        elif todo is Next.AGAIN:
            self._ask_because("no_call", detail)
            bare = self._negotiation.is_bare
            asks = _CALL_NOW if self.native else wish(self.chat, self._format.chosen, bare=bare)
            self._again(outcome.text, f"That answer holds no tool call that can be read. {asks}")
        else:
            raise _no_call(self.chat.choice.name, self._attempts, outcome)

    def _ask_because(self, why: str, detail: str) -> None:
        """Note the reason for the next attempt."""
        self.why = why
        self.decide("ask again", why, detail)

    def _ask_by_prompt(self, why: str, detail: str) -> None:
        """Set up another attempt, by prompt instead of native tools."""
        self.usage.next_attempt()
        self._ask_because(why, detail)
        self.next = self._by_prompt()

    def _again(self, said: str, note: str) -> None:
        """Set up another attempt, with what the model wrote and what was wrong with it."""
        self._retried = True
        # A lone surrogate cannot be sent back.
        text, note = (part.encode("utf-8", "replace").decode() for part in (said, note))
        more = [{"role": "assistant", "content": text or "(empty)"}, {"role": "user", "content": note}]
        self._go_on(more, more)

    def _go_on(self, more: list[dict[str, Any]], for_template: list[dict[str, Any]]) -> None:
        """Set up another attempt, with these messages after the others."""
        self._attempts += 1
        self.usage.next_attempt()
        self._talk.go_on(more, for_template)
        self.next = self._ask()


def _is_empty(outcome: AnswerOutcome) -> bool:
    """Whether an answer that is complete has no text, no call and no thought."""
    return outcome.silent and not (outcome.cut or outcome.calls or outcome.thought_bytes)


def _no_call(name: str | None, attempts: int, outcome: AnswerOutcome) -> ToolCallError:
    """The error for an answer without the call that `tool_choice` asks for, after so many attempts."""
    wanted = f"the tool {name!r}" if name else "a tool"
    tries = "1 try" if attempts == 1 else f"{attempts} tries"
    cut = " Its answer ended at the limit of tokens." if outcome.cut else ""
    nothing = "(only thoughts)" if outcome.thought_bytes else "(nothing)"
    wrote = outcome.text.strip()[:_MAX_SHOWN] or nothing
    message = f"The model did not call {wanted}, although tool_choice asks for it ({tries}).{cut} It wrote: {wrote}"
    return ToolCallError("tool_choice_not_satisfied", message, param="tool_choice")


def _to_model(message: str) -> str:
    """The message of an error about a call, worded for the model, without the quote of what it wrote."""
    said = message.partition(" It wrote: ")[0].replace("the model's call", "your call", 1)
    if said.startswith("The model called"):
        said = f"You called{said.removeprefix('The model called')}"
    return said if said.endswith(".") else f"{said}."


def _token_limit(chat: ChatRequest) -> int | None:
    """The number of tokens that the request allows for an answer; None if it sets no limit."""
    limits = [openai.read_value(chat.fields.get(name)) for name in ("max_tokens", "max_completion_tokens")]
    return min((limit for limit in limits if isinstance(limit, int)), default=None)
