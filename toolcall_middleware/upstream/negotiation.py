"""How the backend is asked: with the tools or by prompt, with which constraint; and what its answers teach about that.

A backend that refuses something is asked once more without it, and remembered for a while by its model; so is one that
ignores it in silence. What the client sent is the client's: only what was added here is left out. What a client may
have caused is remembered for its own tools alone (backend_memory.py).
"""

from __future__ import annotations

import enum
import logging
from typing import Any

import msgspec

from ..errors import shown
from ..formats.base import ToolFormat
from ..formats.unparsed_calls import is_models_fault
from ..request.parse import ChatRequest
from ..settings import Settings
from ..usage.tokenizers.base import estimate
from ..wire import openai
from .backend_memory import REMEMBERED_SECONDS, BackendMemory
from .constraint_ladder import ConstraintLadder
from .constraints import ConstraintRequest, answer_schema
from .request_shape import has_plain_messages, odd_fields, speaks_of_calls, tools_asked

_log = logging.getLogger("toolcall_middleware")
_TOOLS = "tools"
_PROVEN = "tools reach the model"
_STREAM_OPTIONS = "stream_options"
_SPECIAL_TOKENS = "skip_special_tokens"
_CONSTRAINT_WORDS = (b"response_format", b"json_schema", b"schema", b"grammar", b"structur", b"guided")
_OTHER_WORDS = (b"context", b"token")  # the prompt is too long: no constraint's fault
_TOOL_WORDS = (b"tool", b"function", b"extra inputs", b"extra fields", b"unknown field", b"unrecognized", b"jinja")
_REFUSED = frozenset({400, 422})  # statuses by which a field is refused
_FAILED = frozenset({500, 501})  # statuses that may be for a field
_MAX_ESTIMATED = 1 << 17  # characters
_SAMPLES, _SAMPLE = 8, 1 << 11  # how many samples of a long text, and characters of each


class Next(enum.Enum):
    """What to do with an answer of the backend."""

    GIVE = "give"  # the client gets it
    AGAIN = "again"  # ask again, without what was refused
    PROMPT = "prompt"  # ask again by prompt


class Negotiation:
    """How one request is asked. `extra`: fields that are added to the body, or None for those that are taken away."""

    def __init__(self, chat: ChatRequest, settings: Settings, memory: BackendMemory) -> None:
        self._chat = chat
        self._settings = settings
        self._memory = memory
        self._auto = settings.mode == "auto"
        self._ladder: ConstraintLadder | None = None
        self._refused: list[str] = []  # what is remembered once the request is taken without it
        self._refused_tools = False  # the refusal was of the tools: remembered likewise, for this client
        self._watches_format = False  # whether an empty answer would teach something about the prompt's format
        self.extra: dict[str, Any] = {}
        # A response_format of the client's own keeps many a backend's model from calling: by prompt it can do both.
        own_answer = answer_schema(chat) is not None and chat.offers_tools
        either = own_answer and not chat.choice.must_call
        self.native = settings.mode == "native" or (self._auto and not either and not self._refuses(_TOOLS))
        if own_answer and chat.choice.must_call:
            self.extra["response_format"] = None  # a call must come: there is no other answer
        self.attempts_left = 0
        if chat.choice.must_call or settings.validate_arguments == "retry":
            self.attempts_left = settings.retries
        self._ask_for_numbers()
        if self._refuses(_SPECIAL_TOKENS) and _SPECIAL_TOKENS not in chat.fields:
            self.extra[_SPECIAL_TOKENS] = None

    def _ask_for_numbers(self) -> None:
        """What to ask of the usage of a stream, beside what the client does."""
        chat = self._chat
        if self.extra.pop(_STREAM_OPTIONS, chat) is None:
            self.extra[_STREAM_OPTIONS] = None  # it was refused just now
            return
        options = openai.read_value(chat.fields.get(_STREAM_OPTIONS))
        options = options if isinstance(options, dict) else {}
        if self._refuses(_STREAM_OPTIONS):
            if chat.include_usage:
                self.extra[_STREAM_OPTIONS] = None
        elif (
            chat.stream
            and not chat.include_usage
            and (self._watches_format or (self._auto and self.native and self._is_unproven()))
        ):
            # How long the prompt was tells whether the tools were in it, and how long an empty answer was whether a
            # call was taken out of it. The client does not get to see it.
            self.extra[_STREAM_OPTIONS] = {**options, "include_usage": True}

    def _refuses(self, field: str) -> bool:
        memory, model = self._memory, self._chat.model
        if memory.refuses(model, field):
            return True
        return field == _TOOLS and memory.knows(model, self._own_tools_fact())

    def _own_tools_fact(self) -> str:
        return f"no {_TOOLS} like {tools_asked(self._chat)}{odd_fields(self._chat)}"

    def _proof(self) -> str:
        """What is remembered of a model that has called a tool natively: a call that must come is no proof of more."""
        return f"calls itself{' when it must' if self._chat.choice.must_call else ''}"

    @property
    def _is_proven(self) -> bool:
        return self._memory.knows(self._chat.model, self._proof())

    def _doubt_tools(self, why: str) -> None:
        """Its answer seems to show that tools do not reach this model. It is the client's words that it answered."""
        if self._is_proven:
            return
        self._memory.note_own(self._chat.model, self._own_tools_fact())
        _log.info("%s: these tools go to %s by prompt for a while.", why, shown(self._chat.model))

    def _is_unproven(self) -> bool:
        return self._chat.offers_tools and not self._memory.knows(self._chat.model, _PROVEN)

    @property
    def is_constrained(self) -> bool:
        """Whether a constraint is asked for."""
        return self._ladder is not None and self._ladder.asked is not None

    @property
    def is_bare(self) -> bool:
        """Whether it holds the answer to bare JSON, which is not the format's own syntax."""
        asked = None if self._ladder is None else self._ladder.asked
        return asked is not None and asked.bare

    @property
    def is_loose(self) -> bool:
        """Whether it is a weaker one than the tools' schemas ask for: calls are to be checked against them."""
        return self._ladder is not None and self._ladder.is_loose

    @property
    def constraint(self) -> str | None:
        """The kind of the constraint that is asked for."""
        asked = None if self._ladder is None else self._ladder.asked
        return None if asked is None else asked.kind

    def by_prompt(self, fmt: ToolFormat, *, watch: bool = False) -> None:
        """The backend is to take no tools from now on. watch: the count of an empty answer's tokens is of use."""
        self.native = False
        self._watches_format = watch
        self._ask_for_numbers()
        if self._chat.offers_tools:
            # A client's own response_format is about text, and would lock the model out of calls: it is asked for in
            # words, and together with the calls where a schema can say both.
            self.extra["response_format"] = None
        self._ladder = ConstraintLadder(self._chat, fmt, self._settings, self._memory)
        self._ask(None)

    def _ask(self, before: ConstraintRequest | None) -> None:
        """Ask for the constraint at hand, instead of the one `before`."""
        if before is not None:
            self.extra.update(dict.fromkeys(before.fields))
        if self._ladder is not None and self._ladder.asked is not None:
            self.extra.update(self._ladder.asked.fields)

    # -- what an answer teaches ----------------------------------------------------------------------------------

    def after_refusal(self, status: int, refusal: bytes) -> Next:
        """The backend answered with an error, whose text in lower case is `refusal`."""
        if self.native and self._auto and self._refuses_tools(status, refusal):
            if _says_only(refusal, _NO_PARSER, name=self._chat.choice.name):
                self._memory.refuse(self._chat.model, _TOOLS)
                _log.warning("The backend of %s takes no tools: they go by prompt.", shown(self._chat.model))
            elif has_plain_messages(self._chat) and not is_models_fault(refusal):
                self._refused_tools = True
            return Next.PROMPT
        for field in (_STREAM_OPTIONS, _SPECIAL_TOKENS):
            if status in _REFUSED and field.encode() in refusal and self._leaves_out(field):
                return Next.AGAIN
        ladder = self._ladder
        if ladder is None or ladder.asked is None:
            return Next.AGAIN if self._drops_question(status, refusal) else Next.GIVE
        asked, text = ladder.asked, refusal.decode("utf-8", "replace")
        named = any(word in refusal for word in _CONSTRAINT_WORDS) or ladder.names_keyword(text)
        if named and status in _REFUSED | _FAILED and not is_models_fault(refusal):
            ladder.after_refusal(text)
        elif status in _FAILED or (status in _REFUSED and not any(word in refusal for word in _OTHER_WORDS)):
            # It may be the constraint, and the server does not say so: once without any.
            ladder.drop()
        else:
            return Next.GIVE
        self._ask(asked)
        return Next.AGAIN

    def after_acceptance(self) -> None:
        """The backend takes the request: what it refused before was refused for what has been left out since."""
        for fact in self._refused:
            self._memory.note(self._chat.model, fact)
            _log.info("The backend of %s: %s.", shown(self._chat.model), fact)
        self._refused.clear()
        if self._refused_tools:
            # For this client: others may have the same tools, and its words may be what was refused.
            self._refused_tools = False
            self._memory.note_own(self._chat.model, self._own_tools_fact(), seconds=REMEMBERED_SECONDS)
            _log.info("The backend of %s refuses these tools: they go by prompt.", shown(self._chat.model))
        if self._ladder is not None:
            self._ladder.accepted()

    def _drops_question(self, status: int, refusal: bytes) -> bool:
        """Ask no longer for a count that only we wanted: it may be what a server refuses that does not say."""
        asked = self._watches_format and isinstance(self.extra.get(_STREAM_OPTIONS), dict)
        if not asked or self._chat.include_usage or status not in _REFUSED | _FAILED:
            return False
        if any(word in refusal for word in _OTHER_WORDS):
            return False
        return self._leaves_out(_STREAM_OPTIONS, learn=not is_models_fault(refusal))

    def _leaves_out(self, field: str, *, learn: bool = True) -> bool:
        """Leave out a field that is refused, where that can be; the client's own stays unless it is about usage.

        learn: it is to be remembered, once the request is taken without the field.
        """
        usage = field == _STREAM_OPTIONS
        ours = isinstance(self.extra.get(field), dict) or (self._chat.include_usage and field not in self.extra)
        if usage and not ours:
            return False
        if not usage and (field in self._chat.fields or field in self.extra):
            return False
        asked = self.extra.get(field) or openai.read_value(self._chat.fields.get(field))
        if learn and (
            not usage or asked == {"include_usage": True}
        ):  # and nothing of the client's, which it may refuse
            self._refused.append(f"no {field}")
        if usage and not self._chat.include_usage and field in self._chat.fields:
            del self.extra[field]  # the client's own
        else:
            self.extra[field] = None
        return True

    def _refuses_tools(self, status: int, refusal: bytes) -> bool:
        """Whether the backend's refusal is about the tools: vLLM without a parser, an unknown field, a template."""
        if status not in {*_REFUSED, *_FAILED, 404}:
            return False
        return any(word in refusal for word in _TOOL_WORDS) or is_models_fault(refusal)

    def after_answer(self, *, calls: int, read_markup: bool, lost: bool, prompt_tokens: int | None) -> Next:
        """The backend answered. PROMPT: its tools have not reached the model.

        read_markup: calls were read from its text, and none was its own. lost: it says that there was a call, and
        there is none. prompt_tokens: by its own count.
        """
        if not self.native or not self._auto or not self._chat.offers_tools:
            return Next.GIVE
        if read_markup or lost:
            # It leaves the calls in the text as the model wrote them, or loses them: no parser for this model; unless
            # the model wrote what no parser reads, or what it was told to repeat.
            if not speaks_of_calls(self._chat):
                self._doubt_tools("A call was left in the text" if read_markup else "A call was lost")
            return Next.PROMPT if lost else Next.GIVE
        blind = not calls and prompt_tokens is not None and _is_blind(self._chat, prompt_tokens)
        if blind and not self._is_proven:
            self._doubt_tools("The prompt was too short to hold the tools")
            return Next.PROMPT
        if calls or prompt_tokens is not None:
            self._memory.note(self._chat.model, _PROVEN)
        if calls:
            self._memory.note(self._chat.model, self._proof())
        return Next.GIVE

    def after_broken_promise(self, *, cut: bool, text: str) -> Next:
        """No call came, and `tool_choice` asks for one. cut: the answer ended at its limit of tokens. text: it."""
        if self.native and self._auto:
            # The backend takes the tools and does not keep the promise: the prompt and our own check may.
            if not cut:
                self._doubt_tools("No call came although one must")
            return Next.PROMPT
        ladder = self._ladder
        if cut and text.lstrip()[:1] in {"", "{", "[", "<", "`"}:
            return Next.GIVE  # the call was too long for the limit, and would be again; prose may end otherwise
        if ladder is not None and ladder.asked is not None and not cut:
            # An answer without a call does not fit what was asked for: the backend ignores it in silence.
            asked = ladder.asked
            prose = text.lstrip()[:1].isalpha() and asked.kind != "structural_tag"
            ladder.ignored(plainly=prose and not odd_fields(self._chat))
            self._ask(asked)
        if not self.attempts_left:
            return Next.GIVE
        self.attempts_left -= 1
        return Next.AGAIN


_NO_PARSER = (
    '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
    'tool_choice="required" requires --tool-call-parser to be set',
    'tool_choice=function "{name}" requires --tool-call-parser to be set',
)
"""vLLM's whole answer where it has no parser of calls (vllm/entrypoints/openai/chat_completion/serving.py)."""


def _says_only(refusal: bytes, sentences: tuple[str, ...], *, name: str | None) -> bool:
    """Whether an error, in lower case, is one of these sentences and nothing more: a client's words may stand in any
    other one.
    """
    said = openai.read_error(refusal, 400).message.strip()
    return said in {sentence.replace("{name}", name or "").lower() for sentence in sentences}


def _is_blind(chat: ChatRequest, prompt_tokens: int) -> bool:
    """Whether a prompt of so many tokens is too short to have held the tools, which templates write as JSON or as code.

    Only told where the tools are most of the prompt: estimates err by a third.
    """
    written = "".join(f"{tool.name} {tool.description} {_json(tool.parameters)}" for tool in chat.tools.tools)
    contents = [str(message.get("content") or "") for message in chat.messages]
    if len(written) > _MAX_ESTIMATED or sum(map(len, contents)) > len(written):
        return False
    tools, messages = _estimate(written), _estimate(" ".join(contents))
    return messages < tools and prompt_tokens < tools * 0.4 + messages * 0.75


def _estimate(text: str) -> int:
    """About its tokens; of a long text by samples of it, for this is done on the event loop."""
    if len(text) <= _SAMPLES * _SAMPLE:
        return estimate(text)
    step = len(text) // _SAMPLES
    return sum(estimate(text[at : at + _SAMPLE]) for at in range(0, step * _SAMPLES, step)) * step // _SAMPLE


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
