"""How the backend is asked: with the tools or by prompt, with which constraint; and what its answers teach about that.

A backend that refuses something is asked once more without it, and the refusal is remembered for a while by model; so
is a constraint that it ignores. Left out are fields that were added here, and the client's `OPTIONAL` ones; any other
field of the client's is not.
"""

from __future__ import annotations

import enum
import logging
import re
from typing import Any

from ..apis.context_errors import context_fault
from ..errors import ToolCallError, shown
from ..fading_memory import digest
from ..formats.base import ToolFormat
from ..formats.unparsed_calls import is_models_fault
from ..request.parse import ChatRequest
from ..settings import Settings
from ..wire import openai
from .backend_memory import (
    DOUBTFUL_SECONDS,
    REMEMBERED_SECONDS,
    BackendMemory,
    Fact,
    Topic,
    odd_fields,
    speaks_of_calls,
)
from .constraints import ConstraintLadder, ConstraintRequest, answer_schema
from .tool_support import FACT, NATIVE, ToolSupport, refuses_tools, support_of

_log = logging.getLogger("toolcall_middleware")
_STREAM_OPTIONS = "stream_options"
_SPECIAL_TOKENS = "skip_special_tokens"
_CONSTRAINT_WORDS = ("response_format", "json_schema", "schema", "grammar", "structur", "guided")
_OTHER_WORDS = ("context", "token")  # the prompt is too long: no constraint's fault
_REFUSED = frozenset({400, 422})  # statuses by which a field is refused
_FAILED = frozenset({500, 501})  # statuses that may be for a field
_MAX_READ = 4096  # characters of an error
OPTIONAL = {
    name: re.compile(rf"\b{name}\b{others}")
    for name, others in {
        "metadata": "",
        "parallel_tool_calls": "",
        "prompt_cache_key": "",
        "prompt_cache_retention": "",
        "reasoning_effort": "|does not support thinking",  # Ollama
        "safety_identifier": "",
        "service_tier": "",
        "store": "",
        "top_k": "",
        "user": "",
        "verbosity": "",
    }.items()
}
"""Fields that agents send to all models alike and that an answer can do without, and the words that refuse them."""
_LIMITS = ("max_tokens", "max_completion_tokens")


class Next(enum.Enum):
    """What to do with an answer of the backend."""

    GIVE = "give"  # the client gets it
    AGAIN = "again"  # ask again, without what was refused
    PROMPT = "prompt"  # ask again by prompt


class Negotiation:
    """How one request is asked. `begin` comes first, once the evidence that it waits for is there.

    `native`: the tools go to the backend. `is_trial`: nothing shows yet that they reach the model, so an answer is only
    good with a call. `extra`: fields that are added to the body, or None for those that are taken away.
    lowers_limit: a limit of tokens that leaves the prompt no room is lowered, because the client's API demands one.
    """

    def __init__(
        self, chat: ChatRequest, settings: Settings, memory: BackendMemory, *, lowers_limit: bool = False
    ) -> None:
        self._chat = chat
        self._settings = settings
        self._memory = memory
        self._auto = settings.mode == "auto"
        self._ladder: ConstraintLadder | None = None
        self._lowers_limit = lowers_limit
        self._refused: list[str] = []  # fields whose refusal is remembered once the request is taken without them
        self._refused_options: list[str] = []  # likewise, optional ones of the client's
        self._broke_promise = False  # asked with the tools, the backend gave no call although one must come
        self._watches_format = False  # whether an empty answer would teach something about the prompt's format
        self.extra: dict[str, Any] = {}
        self.native = settings.mode == "native"
        self.is_trial = False
        self.attempts_left = 0
        if self.strict or chat.choice.must_call or settings.validate_arguments == "retry":
            self.attempts_left = settings.retries

    def begin(self) -> None:
        """Decide how the first attempt is asked, by what is known of the model now."""
        chat = self._chat
        # A response_format of the client's own keeps many a backend's model from calling: by prompt it can do both.
        own_answer = answer_schema(chat) is not None and chat.offers_tools
        if self._auto and (chat.choice.must_call or not own_answer):
            support = self.support
            self.is_trial = support is None and chat.offers_tools
            self.native = support is None or support in NATIVE
        if own_answer and chat.choice.must_call:
            self.extra["response_format"] = None  # a call must come: there is no other answer
        self._ask_for_numbers()
        if self._refuses(_SPECIAL_TOKENS) and _SPECIAL_TOKENS not in chat.fields:
            self.extra[_SPECIAL_TOKENS] = None
        for name in OPTIONAL.keys() & chat.fields.keys():
            if self._memory.recall(chat.model, self._option(name)):
                self.extra[name] = None

    def _option(self, name: str) -> Fact:
        """An optional field as the client sets it: another value may be taken."""
        return Fact(Topic.REFUSES, (name, digest(bytes(self._chat.fields[name]))))

    @property
    def support(self) -> ToolSupport | None:
        """What is known of the model's own calls."""
        return support_of(self._chat, self._settings, self._memory)

    def _ask_for_numbers(self) -> None:
        """What to ask of the usage of a stream, beside what the client does."""
        chat = self._chat
        if self.extra.pop(_STREAM_OPTIONS, chat) is None:
            self.extra[_STREAM_OPTIONS] = None  # it was refused just now
        elif self._refuses(_STREAM_OPTIONS):
            if chat.include_usage:
                self.extra[_STREAM_OPTIONS] = None
        elif (
            chat.stream and not chat.include_usage and (self._watches_format or self._settings.token_limit is not None)
        ):
            # How long an empty answer was tells whether a call was taken out of it, and tokens may be limited. The
            # client does not get to see it.
            options = openai.read_value(chat.fields.get(_STREAM_OPTIONS))
            self.extra[_STREAM_OPTIONS] = {**(options if isinstance(options, dict) else {}), "include_usage": True}

    def _refuses(self, field: str) -> bool:
        return self._memory.refuses(self._chat.model, field)

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
    def strict(self) -> frozenset[str]:
        """Tools whose calls must fit their schemas, whatever `validate_arguments` says: those with `strict: true`, and
        all where a call must come and could not be held to its schema.
        """
        every = self.is_loose and self._chat.choice.must_call
        return frozenset(tool.name for tool in self._chat.callable_tools.tools if every or tool.strict)

    @property
    def held(self) -> frozenset[str]:
        """Those of them whose calls are checked before they are emitted, and not while they are written.

        Only a constraint that an operator names is believed to hold them: under `constrain=auto` a backend may take a
        field and ignore it, and no backend tells whether it heeds `strict` in native mode.
        """
        named = self._settings.constrain != "auto" and self.is_constrained
        return frozenset() if named and not (self.native or self.is_loose) else self.strict

    @property
    def constraint(self) -> str | None:
        """The kind of the constraint that is asked for."""
        asked = None if self._ladder is None else self._ladder.asked
        return None if asked is None else asked.kind

    def by_prompt(self, fmt: ToolFormat, held: ChatRequest, *, watch: bool = False) -> None:
        """The backend is to take no tools from now on.

        held: the request to which a constraint holds the answer. watch: the count of an empty answer's tokens is of
        use.
        """
        self.native = self.is_trial = False
        self._watches_format = watch
        self._ask_for_numbers()
        if self._chat.offers_tools or self._settings.structured == "prompt":
            # A client's own response_format is about text, and would lock the model out of calls: it is asked for in
            # words, and together with the calls where a schema can say both.
            self.extra["response_format"] = None
        self._ladder = ConstraintLadder(held, fmt, self._settings, self._memory)
        self._ask(None)

    def _ask(self, before: ConstraintRequest | None) -> None:
        """Ask for the constraint at hand, instead of the one `before`."""
        if before is not None:
            self.extra.update(dict.fromkeys(before.fields))
        if self._ladder is not None and self._ladder.asked is not None:
            self.extra.update(self._ladder.asked.fields)

    # -- refusals ------------------------------------------------------------------------------------------------

    def after_refusal(self, error: ToolCallError) -> Next:
        """The backend answered with this error."""
        status, said = error.status, _words(error)
        if self._leaves_out_options(status, said) or self._fits_limit(error):
            return Next.AGAIN
        models_fault = is_models_fault(said)
        if self.native and self._auto and refuses_tools(status, said):
            if not models_fault:
                self._learn(ToolSupport.DOUBTED, "It refuses the tools of a request")
            return Next.PROMPT
        for field in (_STREAM_OPTIONS, _SPECIAL_TOKENS):
            if status in _REFUSED and field in said and self._leaves_out(field):
                return Next.AGAIN
        ladder = self._ladder
        if ladder is None or ladder.asked is None:
            return Next.AGAIN if self._drops_question(status, said) else Next.GIVE
        asked = ladder.asked
        named = any(word in said for word in _CONSTRAINT_WORDS) or ladder.names_keyword(said)
        if named and status in _REFUSED | _FAILED and not models_fault:
            ladder.after_refusal(said)
        elif status in _FAILED or (status in _REFUSED and not any(word in said for word in _OTHER_WORDS)):
            # It may be the constraint, and the server does not say so: once without any.
            ladder.drop()
        else:
            return Next.GIVE
        self._ask(asked)
        return Next.AGAIN

    def after_acceptance(self) -> None:
        """The backend takes the request: what it refused before was refused for what has been left out since."""
        for field in self._refused:
            self._memory.refuse(self._chat.model, field)
            _log.info("The backend of %s takes no %s.", shown(self._chat.model), field)
        self._refused.clear()
        for name in self._refused_options:
            self._memory.note_own(self._chat.model, self._option(name), seconds=REMEMBERED_SECONDS)
            _log.info("The backend of %s refuses %s: it is asked without.", shown(self._chat.model), name)
        self._refused_options.clear()
        if self._ladder is not None:
            self._ladder.accepted()

    def _leaves_out_options(self, status: int, said: str) -> bool:
        """Leave out the optional fields that an error names. Whether there were any."""
        if status not in _REFUSED | _FAILED or self._settings.upstream_api != "openai":
            return False
        sent = [name for name in OPTIONAL if name in self._chat.fields and name not in self.extra]
        named = [name for name in sent if OPTIONAL[name].search(said)]
        self.extra.update(dict.fromkeys(named))
        self._refused_options += named
        return bool(named)

    def _fits_limit(self, error: ToolCallError) -> bool:
        """Lower the limit of tokens to the room that the backend names, or leave it out. Whether that changes it."""
        name = next((name for name in _LIMITS if name in self._chat.fields), None)
        if name is None or name in self.extra or not self._lowers_limit or self._settings.upstream_api != "openai":
            return False
        fault = context_fault(error)
        limit = openai.read_value(self._chat.fields[name])
        if fault is None or not isinstance(limit, int):
            return False
        room = fault.room
        if not (fault.by_answer if room is None else 0 < room < limit):
            return False
        self.extra[name] = room
        _log.info("%s=%d leaves the prompt no room; it is asked with %s.", name, limit, room or "no limit")
        return True

    def _drops_question(self, status: int, said: str) -> bool:
        """Ask no longer for a count that only we wanted: it may be what a server refuses that does not say."""
        asked = isinstance(self.extra.get(_STREAM_OPTIONS), dict)
        if not asked or self._chat.include_usage or status not in _REFUSED | _FAILED:
            return False
        if any(word in said for word in _OTHER_WORDS):
            return False
        return self._leaves_out(_STREAM_OPTIONS, learn=not is_models_fault(said))

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
        if learn and (not usage or asked == {"include_usage": True}):
            self._refused.append(field)  # else it may be for what the client has put beside it
        if usage and not self._chat.include_usage and field in self._chat.fields:
            del self.extra[field]  # the client's own
        else:
            self.extra[field] = None
        return True

    # -- what an answer teaches ----------------------------------------------------------------------------------

    def after_answer(self, *, calls: int, read_markup: bool, lost: bool) -> Next:
        """The backend answered. PROMPT: its tools have not reached the model, or its call got lost.

        calls: how many came. read_markup: they were read from its text, and none was its own. lost: it says that there
        was a call, and there is none. An answer without a call proves nothing.
        """
        if not self._auto or not self._chat.offers_tools:
            return Next.GIVE
        if not self.native:
            if self._broke_promise and calls:
                self._learn(ToolSupport.NONE, "A required call came by prompt alone")
            return Next.GIVE
        if read_markup or lost:
            # No parser for this model; unless one has been seen at work, or the model repeats what it was told.
            if self.support is not ToolSupport.CALLS and not speaks_of_calls(self._chat):
                self._learn(ToolSupport.NONE, "A call was left in the text" if read_markup else "A call was lost")
            return Next.PROMPT if lost else Next.GIVE
        if calls:
            # A call that must come may be a constraint's doing: it shows no more than was known.
            if not self._chat.choice.must_call:
                self._learn(ToolSupport.CALLS, "A call came")
        elif self.is_trial:
            self._learn(ToolSupport.NONE, "Nothing shows that tools reach it", seconds=DOUBTFUL_SECONDS)
            return Next.PROMPT
        return Next.GIVE

    def _learn(self, support: ToolSupport, why: str, *, seconds: float = REMEMBERED_SECONDS) -> None:
        """Remember this of the model, for all clients."""
        model = self._chat.model
        if support is not self.support:
            _log.info("The backend of %s: native calls: %s. %s.", shown(model), support.value, why)
        self._memory.note(model, FACT, value=support, seconds=seconds)

    def after_broken_promise(self, *, cut: bool, text: str) -> Next:
        """No call came, and `tool_choice` asks for one. cut: the answer ended at its limit of tokens. text: it."""
        if self.native and self._auto:
            # The backend takes the tools and does not keep the promise: the prompt and our own check may.
            self._broke_promise = not cut
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


def _words(error: ToolCallError) -> str:
    """All that an error says, in lower case."""
    parts = (error.message[:_MAX_READ], error.param, error.type, error.code)
    return " ".join(str(part) for part in parts if part).lower()
