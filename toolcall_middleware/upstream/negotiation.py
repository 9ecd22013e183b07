"""How the backend is asked (with tools or by prompt, with which constraint), and what is learned from its answers.

A backend that refuses a field is asked once more without it, and the refusal is remembered for a while by model. So is
a constraint that it ignores. Only fields that were added here and the client's `OPTIONAL` fields are left out; all
other fields of the client are kept.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..apis.context_errors import context_fault
from ..errors import ToolCallError, shown
from ..formats.base import Tag, ToolFormat
from ..formats.unparsed_calls import is_models_fault
from ..json_schema.compact import calls_schema, either_schema
from ..json_schema.loosen import BOOLEANS, loose_keywords, named_keywords, without
from ..json_schema.walk import changed
from ..lru_cache import digest
from ..request.parse import ChatRequest
from ..response.choice import AnswerOutcome
from ..settings import Settings
from ..wire import openai
from .backend_memory import (
    DOUBTFUL_SECONDS,
    FACT,
    NATIVE,
    REMEMBERED_SECONDS,
    BackendMemory,
    Fact,
    PendingRefusals,
    ToolSupport,
    Topic,
    has_call_markup,
    has_plain_names,
    odd_fields,
    refuses_tools,
    support_of,
)

_log = logging.getLogger("toolcall_middleware")
_STREAM_OPTIONS = "stream_options"
_SPECIAL_TOKENS = "skip_special_tokens"
_CONSTRAINT_WORDS = ("response_format", "json_schema", "schema", "grammar", "structur", "guided")
_OTHER_WORDS = ("context", "token")  # the prompt is too long, which is not caused by a constraint
_REFUSED = frozenset({400, 422})  # statuses of responses that refuse a field
_FAILED = frozenset({500, 501})  # statuses that a field may have caused
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
"""Fields that agents send to all models and that an answer does not need, and patterns of their refusals."""
_LIMITS = ("max_tokens", "max_completion_tokens")


class Next(enum.Enum):
    """What to do with an answer of the backend."""

    GIVE = "give"  # send it to the client
    AGAIN = "again"  # ask again, without what was refused
    PROMPT = "prompt"  # ask again by prompt


class Negotiation:
    """How the backend is asked one request. `begin` is called first, after the evidence for the request was gathered.

    `native`: the tools are sent to the backend. `is_trial`: it is not known whether they reach the model, so only an
    answer with a call is accepted. `extra`: fields to add to the body; None removes one.
    lowers_limit: lower a limit of tokens that is too large for the context, because the client's API demands a limit.
    """

    def __init__(
        self, chat: ChatRequest, settings: Settings, memory: BackendMemory, *, lowers_limit: bool = False
    ) -> None:
        self._chat = chat
        self._settings = settings
        self._memory = memory
        self._auto = settings.mode == "auto"
        self.refusals = PendingRefusals(memory, chat.model)
        self._ladder = ConstraintLadder(settings, memory, self.refusals)
        self._lowers_limit = lowers_limit
        self._broke_promise = False  # asked natively, the backend made no call although one is required
        self._watches_format = False  # whether an empty answer may show that calls in the prompt's format get lost
        self.extra: dict[str, Any] = {}
        self.native = settings.mode == "native"
        self.is_trial = False
        self.attempts_left = 0
        if self.strict or chat.choice.must_call or settings.validate_arguments == "retry":
            self.attempts_left = settings.retries

    def begin(self) -> None:
        """Decide how the first attempt is asked, by what is known of the model."""
        chat = self._chat
        # With the client's response_format, many backends keep a model from calling. By prompt it can do both.
        own_answer = chat.answer_schema is not None and chat.offers_tools
        if self._auto and (chat.choice.must_call or not own_answer):
            support = self.support
            self.is_trial = support is None and chat.offers_tools
            self.native = support is None or support in NATIVE
        if own_answer and chat.choice.must_call:
            self.extra["response_format"] = None  # a call is required, so it does not apply
        self._ask_for_numbers()
        if self._refuses(_SPECIAL_TOKENS) and _SPECIAL_TOKENS not in chat.fields:
            self.extra[_SPECIAL_TOKENS] = None
        for name in OPTIONAL.keys() & chat.fields.keys():
            if self._memory.recall(chat.model, self._option(name)):
                self.extra[name] = None

    def _option(self, name: str) -> Fact:
        """The fact about an optional field with the client's value: another value may be accepted."""
        return Fact(Topic.REFUSES, (name, digest(bytes(self._chat.fields[name]))))

    @property
    def support(self) -> ToolSupport | None:
        """What is known of the model's native calls."""
        return support_of(self._chat, self._settings, self._memory)

    def _ask_for_numbers(self) -> None:
        """Ask for the usage of a stream, if it is needed and the client does not ask for it."""
        chat = self._chat
        if self.extra.pop(_STREAM_OPTIONS, chat) is None:
            self.extra[_STREAM_OPTIONS] = None  # it was refused just now
        elif self._refuses(_STREAM_OPTIONS):
            if chat.include_usage:
                self.extra[_STREAM_OPTIONS] = None
        elif (
            chat.stream and not chat.include_usage and (self._watches_format or self._settings.token_limit is not None)
        ):
            # The count of an empty answer shows whether a call was removed from it, and limits of tokens need it. It is
            # not sent to the client.
            options = openai.read_value(chat.fields.get(_STREAM_OPTIONS))
            self.extra[_STREAM_OPTIONS] = {**(options if isinstance(options, dict) else {}), "include_usage": True}

    def _refuses(self, field: str) -> bool:
        return self._memory.refuses(self._chat.model, field)

    @property
    def asked(self) -> ConstraintRequest | None:
        """The constraint that is requested; None without one."""
        return self._ladder.asked

    @property
    def kind(self) -> str | None:
        """The kind of the constraint that is requested; None without one."""
        return None if self.asked is None else self.asked.kind

    @property
    def is_bare(self) -> bool:
        """Whether the constraint is for bare JSON, which is not the format's own syntax."""
        return self.asked is not None and self.asked.bare

    @property
    def strict(self) -> frozenset[str]:
        """Tools whose calls must fit their schemas, whatever `validate_arguments` says: those with `strict: true`, and
        all if a call is required and could not be constrained to its schema.
        """
        every = self._ladder.is_loose and self._chat.choice.must_call
        return frozenset(tool.name for tool in self._chat.callable_tools.tools if every or tool.strict)

    @property
    def held(self) -> frozenset[str]:
        """The tools of `strict` whose calls are held back until they are checked, instead of being streamed.

        Only a constraint that an operator names is trusted. Under `constrain=auto` a backend may accept a field and
        ignore it, and no backend reports whether it applies `strict` in native mode.
        """
        named = self._settings.constrain != "auto" and self.asked is not None
        return frozenset() if named and not (self.native or self._ladder.is_loose) else self.strict

    def by_prompt(self, fmt: ToolFormat, held: ChatRequest, *, watch: bool = False) -> None:
        """Send the tools in the prompt from now on.

        held: the request that the constraint is made of. watch: the count of an empty answer's tokens is
        needed.
        """
        self.native = self.is_trial = False
        self._watches_format = watch
        self._ask_for_numbers()
        if self._chat.offers_tools or self._settings.structured == "prompt":
            # The client's response_format is about text and would make calls impossible. It is asked for in words, and
            # together with the calls if one schema can express both.
            self.extra["response_format"] = None
        self._ladder.begin(held, fmt)
        self._ask(None)

    def _ask(self, before: ConstraintRequest | None) -> None:
        """Ask for the current constraint, instead of the one `before`."""
        if before is not None:
            self.extra.update(dict.fromkeys(before.fields))
        if self.asked is not None:
            self.extra.update(self.asked.fields)

    # -- refusals ------------------------------------------------------------------------------------------------

    def after_refusal(self, error: ToolCallError) -> Next:
        """What to do after this error of the backend."""
        status, said = error.status, _words(error)
        if self._omit_options(status, said) or self._fits_limit(error):
            return Next.AGAIN
        models_fault = is_models_fault(said)
        if self.native and self._auto and refuses_tools(status, said):
            if not models_fault:
                self._learn(ToolSupport.DOUBTED, "It refuses the tools of a request")
            return Next.PROMPT
        for field in (_STREAM_OPTIONS, _SPECIAL_TOKENS):
            if status in _REFUSED and field in said and self._omit(field):
                return Next.AGAIN
        ladder, asked = self._ladder, self.asked
        if asked is None:
            return Next.AGAIN if self._drops_question(status, said) else Next.GIVE
        named = any(word in said for word in _CONSTRAINT_WORDS) or ladder.names_keyword(said)
        if named and status in _REFUSED | _FAILED and not models_fault:
            ladder.after_refusal(said)
        elif status in _FAILED or (status in _REFUSED and not any(word in said for word in _OTHER_WORDS)):
            # The constraint may be the cause without being named: ask once without any.
            ladder.drop()
        else:
            return Next.GIVE
        self._ask(asked)
        return Next.AGAIN

    def _omit_options(self, status: int, said: str) -> bool:
        """Leave out the optional fields that an error names. Return whether there were any."""
        if status not in _REFUSED | _FAILED or self._settings.upstream_api != "openai":
            return False
        sent = [name for name in OPTIONAL if name in self._chat.fields and name not in self.extra]
        named = [name for name in sent if OPTIONAL[name].search(said)]
        self.extra.update(dict.fromkeys(named))
        for name in named:
            self.refusals.add(self._option(name), f"refuses {name}: it is asked without", level=logging.INFO, own=True)
        return bool(named)

    def _fits_limit(self, error: ToolCallError) -> bool:
        """Lower the limit of tokens to the room that the backend names, or leave it out. Return whether it changed."""
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
        """Stop asking for usage that the client did not ask for: it may be the cause of a refusal that names none."""
        asked = isinstance(self.extra.get(_STREAM_OPTIONS), dict)
        if not asked or self._chat.include_usage or status not in _REFUSED | _FAILED:
            return False
        if any(word in said for word in _OTHER_WORDS):
            return False
        return self._omit(_STREAM_OPTIONS, learn=not is_models_fault(said))

    def _omit(self, field: str, *, learn: bool = True) -> bool:
        """Leave out a refused field and return whether that was possible; the client's stays unless it is about usage.

        learn: remember the refusal once the request is accepted without the field.
        """
        chat, added = self._chat, field in self.extra
        if field == _STREAM_OPTIONS:
            asked = self.extra[field] if added else openai.read_value(chat.fields.get(field))
            if asked is None or not (added or chat.include_usage):
                return False
            # The cause may be another option of the client in it.
            learn = learn and asked == {"include_usage": True}
        elif added or field in chat.fields:
            return False
        if learn:
            self.refusals.add(Fact(Topic.REFUSES, (field,)), f"takes no {field}", level=logging.INFO)
        self.extra[field] = None
        if field == _STREAM_OPTIONS and field in chat.fields and not chat.include_usage:
            del self.extra[field]  # the client's own
        return True

    # -- learning from answers ----------------------------------------------------------------------------------

    def after_answer(self, outcome: AnswerOutcome) -> Next:
        """What to do after an answer. PROMPT: native tools did not reach the model, or its call got lost. An answer
        without a call proves nothing.
        """
        calls, lost = outcome.calls, outcome.lost
        if not self._auto or not self._chat.offers_tools:
            return Next.GIVE
        if not self.native:
            if self._broke_promise and calls:
                self._learn(ToolSupport.NONE, "A required call came by prompt alone")
            return Next.GIVE
        if outcome.read_markup or lost:
            # The backend has no parser for this model, unless native calls came before or the model repeats its input.
            if self.support is not ToolSupport.CALLS and not has_call_markup(self._chat):
                self._learn(
                    ToolSupport.NONE, "A call was left in the text" if outcome.read_markup else "A call was lost"
                )
            return Next.PROMPT if lost else Next.GIVE
        if calls:
            # A required call may come from a constraint of the backend: it proves nothing.
            if not self._chat.choice.must_call:
                self._learn(ToolSupport.CALLS, "A call came")
        elif self.is_trial:
            self._learn(ToolSupport.NONE, "Nothing shows that tools reach it", seconds=DOUBTFUL_SECONDS)
            return Next.PROMPT
        return Next.GIVE

    def _learn(self, support: ToolSupport, why: str, *, seconds: float = REMEMBERED_SECONDS) -> None:
        """Remember the tool support of the model, for all clients."""
        model = self._chat.model
        if support is not self.support:
            _log.info("The backend of %s: native calls: %s. %s.", shown(model), support.value, why)
        self._memory.note(model, FACT, value=support, seconds=seconds)

    def after_broken_promise(self, *, cut: bool, text: str) -> Next:
        """What to do after an answer without a required call. cut: it ended at its limit of tokens. text: its text."""
        if self.native and self._auto:
            # The backend takes the tools but does not apply tool_choice. Asking by prompt, with a check, may work.
            self._broke_promise = not cut
            return Next.PROMPT
        ladder, asked = self._ladder, self.asked
        if cut and text.lstrip()[:1] in {"", "{", "[", "<", "`"}:
            return Next.GIVE  # the call was too long for the limit and would be again; prose may not be
        if asked is not None and not cut:
            # An answer without a call does not fit the constraint: the backend silently ignores it.
            prose = text.lstrip()[:1].isalpha() and asked.kind != "structural_tag"
            ladder.ignored(plainly=prose and not odd_fields(self._chat))
            self._ask(asked)
        if not self.attempts_left:
            return Next.GIVE
        self.attempts_left -= 1
        return Next.AGAIN


def _words(error: ToolCallError) -> str:
    """All texts of an error, in lower case."""
    parts = (error.message[:_MAX_READ], error.param, error.type, error.code)
    return " ".join(str(part) for part in parts if part).lower()


# -- the ways to ask for constrained decoding, the best one first ----------------------------------------------------
#
# A backend that refuses a constraint may not know a keyword of a schema, or not know the kind of constraint at all. So
# it is asked again without the keywords that it names (or, if it names none, without all that can be left out), then
# with arguments that are only declared to be objects. If it refuses that too, it does not support the kind. As nothing
# in that request depends on the client, this is remembered for all clients; any other refusal for that schema only.
#
# Nothing is remembered before the backend has accepted the same request in another way, which shows that the constraint
# was the fault.


_OBJECTS = ("*",)
"""Means all keywords: arguments are only declared to be objects."""
_UNKNOWN_TYPE = re.compile(
    r"""
    response_format\ type\ must\ be\ one\ of[^a-z]+text\W+or\W+json_object\W+but\ got
    | 1\ validation\ error:\n\s+\{'type':\ 'literal_error',\ 'loc':\ \('body',\ 'response_format',\ 'type'\)
    """,
    re.VERBOSE,
)
"""The first words of errors of llama.cpp's server and llama-cpp-python for a kind that they do not know. They have not
read the schema then, and these words precede all text of the client."""
_MOST_REFUSALS = 8
"""The maximum of refusals in one request, after which no constraint is used."""


@dataclass(frozen=True, slots=True)
class ConstraintRequest:
    """One way of asking for a constraint: the setting's name for it, and the request's fields."""

    kind: str
    fields: dict[str, Any]
    bare: bool = False
    """The answer must be bare JSON, `{"tool_calls": [...]}`, which is not the format's own syntax."""
    left_out: tuple[str, ...] = ()
    """The keywords that its schemas do without, because the backend refuses them."""


def constraint_requests(
    chat: ChatRequest, fmt: ToolFormat, settings: Settings, *, left_out: tuple[str, ...] = ()
) -> list[ConstraintRequest]:
    """The ways to constrain the answer to the format, the best first. The next is used if one is refused or ignored.

    left_out: the keywords that the schemas of the tools and of the client's `response_format` are to do without.
    With `required` and named tools the whole answer is constrained. Under `auto` a call is optional, and only the
    arguments of tools with `strict: true` are constrained, if the syntax has tags that can trigger it.
    """
    tools = chat.shown_tools.tools
    if settings.constrain == "off" or not tools:
        return []
    answer = chat.answer_schema
    if not chat.choice.must_call and answer is None and not any(tool.strict for tool in tools):
        return []
    llama_cpp = asks_llama_cpp_for_text(settings)
    if left_out or llama_cpp:
        weaker = functools.partial(_weaker, left_out=left_out, llama_cpp=llama_cpp)
        answer = None if answer is None else weaker(answer)
        tools = tuple(dataclasses.replace(tool, parameters=weaker(tool.parameters)) for tool in tools)
    own = fmt.constraint(tools, chat.choice)
    tagged = () if own is None or llama_cpp else own.tags
    schema: dict[str, Any] = {}
    bare = False
    if chat.choice.must_call:
        # Every format also reads calls in JSON.
        schema = own.schema or {} if own is not None else {}
        bare = not schema
        schema = schema or calls_schema(tools, parallel=chat.choice.parallel)
    elif answer is not None:
        # The constraint allows both an answer in the client's schema and a call.
        schema, tagged = either_schema(answer, tools, parallel=chat.choice.parallel), ()
    found = [ConstraintRequest("structural_tag", _tagged(tagged, chat), left_out=left_out)] if tagged else []
    plain = [ConstraintRequest(kind, form(schema), bare, left_out) for kind, form in _FORMS.items()] if schema else []
    if settings.constrain != "auto":
        return [way for way in (*found, *plain) if way.kind == settings.constrain][:1]
    return [*found, *(way for way in plain if way.kind in _AUTO)]


def asks_llama_cpp_for_text(settings: Settings) -> bool:
    """Whether the backend's text completions are llama.cpp's: its server served the template (`template=props`). They
    take a schema as `json_schema` only, and silently ignore any other constraint.
    """
    from_upstream = settings.template is not None and settings.template == settings.upstream_url
    return from_upstream and settings.send == "completions"


_SILENCING = frozenset({
    "contains", "dependencies", "dependentRequired", "dependentSchemas", "else", "format", "if", "maxContains",
    "minContains", "not", "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties", "uniqueItems", BOOLEANS,
})  # fmt: skip
"""If a schema has one of these, llama.cpp's text completions silently drop it; of formats only `uri` does that."""
_SILENCING_PATTERN = re.compile(r"\(\?[=!<]|\\[bB]")


def _weaker(schema: Mapping[str, Any], *, left_out: tuple[str, ...], llama_cpp: bool) -> dict[str, Any]:
    """The schema without these keywords. llama_cpp: also without those for which its text completions drop a schema;
    its chat completions ignore most of these, too.
    """

    def plain(node: dict[str, Any]) -> dict[str, Any]:
        pattern = node.get("pattern")
        silences = isinstance(pattern, str) and _SILENCING_PATTERN.search(pattern) is not None
        return {key: value for key, value in node.items() if not (silences and key == "pattern")}

    made: Any = {"type": "object"} if left_out == _OBJECTS else without(schema, left_out) if left_out else schema
    known: dict[str, Any] = changed(without(made, _SILENCING), plain) if llama_cpp else made
    return known


_FORMS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "response_format": lambda schema: _response_format(
        "json_schema", json_schema={"name": "tool_calls", "schema": schema, "strict": True}
    ),
    # For llama.cpp's server and llama-cpp-python's, which make a grammar of it. A grammar made here could also express
    # a format's tags. With a real small model it gave fewer valid calls than plain JSON, as the model kept calling
    # without end. Every format reads plain JSON (tests/bench/README.md).
    "llama_cpp": lambda schema: _response_format("json_object", schema=schema),
    "structured_outputs": lambda schema: {"structured_outputs": {"json": schema}},
    "structural_tag": lambda schema: _response_format(
        "structural_tag", format={"type": "json_schema", "json_schema": schema}
    ),
}
"""The ways to ask for JSON of a schema. `guided_json` is not among them: vLLM ignores it since 0.12."""
_AUTO = frozenset({"response_format", "llama_cpp"})
"""Those that are used under `constrain=auto`."""


def _response_format(kind: str, **more: Any) -> dict[str, Any]:
    return {"response_format": {"type": kind, **more}}


def _tagged(tags: tuple[Tag, ...], chat: ChatRequest) -> dict[str, Any]:
    """The fields that ask for calls in the format's own syntax (xgrammar's structural tags, as in vLLM and SGLang)."""
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
    return _response_format("structural_tag", format=form)


class ConstraintLadder:
    """The constraints of one request, the best first. `asked` is the current one, None if no constraint is left.

    `is_loose`: it is weaker than the tools' schemas, so that calls have to be checked against them.
    """

    def __init__(self, settings: Settings, memory: BackendMemory, refusals: PendingRefusals) -> None:
        self._settings = settings
        self._memory = memory
        self._refusals = refusals
        self.asked: ConstraintRequest | None = None

    def begin(self, chat: ChatRequest, fmt: ToolFormat) -> None:
        """Ask for the first constraint of calls in this format."""
        self._chat = chat
        self._format = fmt
        self._shape = odd_fields(chat)
        self._count = 0
        self._full: ConstraintRequest | None = None  # `asked`, or the constraint that it was loosened from
        found = constraint_requests(chat, fmt, self._settings)
        self._requests = [one for one in found if self._settings.constrain != "auto" or not self._is_known(one.kind)]
        self._next_kind()

    @property
    def is_loose(self) -> bool:
        """Whether the current constraint is weaker than the tools' schemas."""
        return self.asked is not None and bool(self.asked.left_out)

    def _next_kind(self) -> None:
        """Go on to the next kind of constraint, if any, and forget what was refused of this one."""
        if self._full is not None:
            self._refusals.drop(self._schema_fact(self._full))
        full = self._full = self.asked = self._requests.pop(0) if self._requests else None
        if full is not None and (known := self._memory.recall(self._chat.model, self._schema_fact(full))):
            self.asked = self._loosened(full, known) or full

    def drop(self) -> None:
        """Ask without any constraint."""
        self._requests.clear()
        self._next_kind()

    # -- learning from refusals -------------------------------------------------------------------------------------

    def names_keyword(self, refusal: str) -> bool:
        """Whether a refusal, in lower case, names a keyword of the schemas."""
        return bool(named_keywords(refusal, self._schemas()))

    def after_refusal(self, refusal: str) -> None:
        """Go on to a weaker constraint, or the next kind, after a refusal with this text in lower case."""
        asked, full = self.asked, self._full
        if asked is None or full is None:
            return
        self._count += 1
        if self._count >= _MOST_REFUSALS:
            self.drop()
            return
        left_out = asked.left_out
        if left_out != _OBJECTS and not _UNKNOWN_TYPE.match(refusal):
            named = named_keywords(refusal, self._schemas()) - set(left_out)
            words = named or (frozenset[str]() if left_out else loose_keywords(self._schemas()))
            for less in (tuple(sorted({*left_out, *words})), _OBJECTS):
                if less != left_out and (looser := self._loosened(asked, less)) is not None:
                    self.asked = looser
                    what = "a schema of its tools" if less == _OBJECTS else f"{', '.join(less)} in a schema"
                    said = f"refuses {what} as {full.kind}: it is asked without, and calls are checked"
                    self._refusals.add(self._schema_fact(full), said, value=less)
                    return
        if has_plain_names(self._chat):
            self._refusals.add(self._kind_fact(asked.kind), f"takes no {asked.kind}: it is not asked for a while")
        self._next_kind()

    def ignored(self, *, plainly: bool) -> None:
        """Go on to the next kind, after the backend accepted the constraint and did not apply it.

        plainly: the answer is impossible under any constraint of the kind.
        """
        asked, model = self.asked, self._chat.model
        if asked is None:
            return
        if plainly and has_plain_names(self._chat):
            self._memory.note(model, self._kind_fact(asked.kind))
            _log.warning("The backend of %s ignores %s: it is not asked for a while.", shown(model), asked.kind)
        else:
            self._memory.note(model, self._own_fact(asked.kind), own=True)
        self._next_kind()

    def _loosened(self, asked: ConstraintRequest, left_out: tuple[str, ...]) -> ConstraintRequest | None:
        """The same kind without these keywords; None if that makes no difference."""
        found = constraint_requests(self._chat, self._format, self._settings, left_out=left_out)
        looser = next((one for one in found if one.kind == asked.kind), None)
        return None if looser is None or looser.fields == asked.fields else looser

    def _schemas(self) -> list[Any]:
        schemas: list[Any] = [tool.parameters for tool in self._chat.shown_tools.tools]
        answer = self._chat.answer_schema
        return schemas if answer is None else [*schemas, answer]

    def _kind_fact(self, kind: str) -> Fact:
        return Fact(Topic.REFUSES, (kind, self._shape) if self._shape else (kind,))

    def _own_fact(self, kind: str) -> Fact:
        return Fact(Topic.REFUSES, (kind, self._shape, digest(self._chat.tools_raw)))

    def _is_known(self, kind: str) -> bool:
        memory, model = self._memory, self._chat.model
        facts = (Fact(Topic.REFUSES, (kind,)), self._kind_fact(kind), self._own_fact(kind))
        return any(memory.recall(model, fact) for fact in facts)

    def _schema_fact(self, asked: ConstraintRequest) -> Fact:
        return Fact(Topic.LEFT_OUT, (asked.kind, digest(msgspec.json.encode(asked.fields), self._shape.encode())))
