"""What to ask of the backend's constrained decoding: the ways to ask for it, the best one first, and the next weaker
one where a way is refused or ignored.

A backend that refuses a constraint may not know one keyword of a schema, or not know the kind of constraint at all.
So it is asked again without the keywords that it names (or, where it names none, without all that can go), then with
arguments that are only said to be objects. Where it refuses that too, it does not take the kind; since nothing in that
request was of the client's making, this holds for all. Anything less is remembered of that schema only.

Nothing is remembered before the backend has taken the same request in another way: then the constraint was the fault.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import shown
from ..fading_memory import digest
from ..formats.base import Tag, ToolFormat
from ..json_schema.compact import calls_schema, either_schema
from ..json_schema.loosen import BOOLEANS, loose_keywords, named_keywords, without
from ..json_schema.walk import changed
from ..request.parse import ChatRequest
from ..settings import Settings
from ..wire import openai
from .backend_memory import BackendMemory, Fact, Topic, has_plain_names, odd_fields

_log = logging.getLogger("toolcall_middleware")
_OBJECTS = ("*",)
"""Stands for all keywords: arguments are only said to be objects."""
_UNKNOWN_TYPE = re.compile(
    r"""
    response_format\ type\ must\ be\ one\ of[^a-z]+text\W+or\W+json_object\W+but\ got
    | 1\ validation\ error:\n\s+\{'type':\ 'literal_error',\ 'loc':\ \('body',\ 'response_format',\ 'type'\)
    """,
    re.VERBOSE,
)
"""The first words of llama.cpp's server and llama-cpp-python's when they do not know the kind, whatever its schema. No
schema has been looked at then, and no client's words precede these."""
_MOST_REFUSALS = 8
"""Of one request's constraints; then it is asked without any."""


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
    chat: ChatRequest, fmt: ToolFormat, settings: Settings, *, change: Change | None = None
) -> list[ConstraintRequest]:
    """How to hold the backend to the format, the best way first; the next one is for when it is refused or ignored.

    change: what to make of the schemas of the tools and of the client's own answer first.
    `required` and named tools are constrained as a whole answer. Under `auto` a call is free to come or not, and only
    the arguments of tools with `strict: true` are held, where the syntax has tags that can trigger it.
    """
    tools = chat.shown_tools.tools
    if settings.constrain == "off" or not tools:
        return []
    strict = any(tool.strict for tool in tools)
    answer = answer_schema(chat)
    if not chat.choice.must_call and not strict and answer is None:
        return []
    if asks_llama_cpp_for_text(settings):
        change = functools.partial(_known_to_llama_cpp, change=change)
    if change is not None and answer is not None:
        answer = change(answer)
    if change is not None:
        tools = tuple(dataclasses.replace(tool, parameters=change(tool.parameters)) for tool in tools)
    own = fmt.constraint(tools, chat.choice)
    tags = own.tags if own is not None else ()
    found = [_tagged(tags, chat)] if tags and not asks_llama_cpp_for_text(settings) else []
    plain: list[ConstraintRequest] = []
    if chat.choice.must_call:
        # Every format reads calls as JSON too.
        schema = own.schema if own is not None else {}
        plain = _whole(schema or calls_schema(tools, parallel=chat.choice.parallel))
        if not schema:
            plain = [dataclasses.replace(way, bare=True) for way in plain]
    elif answer is not None:
        # The client's own schema, or a call: the model is locked out of neither.
        found = []
        plain = _whole(either_schema(answer, tools, parallel=chat.choice.parallel))
    if settings.constrain != "auto":
        return [way for way in (*found, *plain) if way.kind == settings.constrain][:1]
    return [*found, *(way for way in plain if way.kind in _AUTO)]


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


class ConstraintLadder:
    """The constraints of one request, the best first. `asked` is the one at hand, None where there is none.

    `is_loose`: it says less than the tools' schemas do, so that calls are to be checked against them.
    """

    def __init__(self, chat: ChatRequest, fmt: ToolFormat, settings: Settings, memory: BackendMemory) -> None:
        self._chat = chat
        self._format = fmt
        self._settings = settings
        self._memory = memory
        self._shape = odd_fields(chat)
        self._requests = [
            asking
            for asking in constraint_requests(chat, fmt, settings)
            if settings.constrain != "auto" or not self._is_known(asking.kind)
        ]
        self._full: ConstraintRequest | None = None  # what `asked` is, or was made looser of
        self._left_out: tuple[str, ...] = ()
        self._refused: list[str] = []  # kinds
        self._count = 0
        self._news = False  # the constraint at hand was refused as it stood
        self.asked: ConstraintRequest | None = None
        self.next_kind()

    @property
    def is_loose(self) -> bool:
        """Whether the constraint at hand says less than the tools' schemas."""
        return self.asked is not None and bool(self._left_out)

    def next_kind(self) -> None:
        """The next way to ask."""
        self._full = self.asked = self._requests.pop(0) if self._requests else None
        self._left_out, self._news = (), False
        if self.asked is not None and (known := self._memory.recall(self._chat.model, self._schema_fact(self.asked))):
            self._loosen(known)

    def drop(self) -> None:
        """Ask without any constraint."""
        self._requests.clear()
        self.next_kind()

    # -- what refusals teach -------------------------------------------------------------------------------------

    def names_keyword(self, refusal: str) -> bool:
        """Whether a refusal, in lower case, names a keyword of the schemas."""
        return bool(named_keywords(refusal, self._schemas()))

    def after_refusal(self, refusal: str) -> None:
        """The constraint at hand was refused with these words, in lower case: the next weaker one, or the next kind."""
        asked = self.asked
        if asked is None:
            return
        self._count += 1
        if self._count >= _MOST_REFUSALS:
            self.drop()
            return
        if self._left_out != _OBJECTS and not _UNKNOWN_TYPE.match(refusal):
            named = named_keywords(refusal, self._schemas()) - set(self._left_out)
            words = named or (frozenset[str]() if self._left_out else loose_keywords(self._schemas()))
            for less in (tuple(sorted({*self._left_out, *words})), _OBJECTS):
                if less != self._left_out and self._loosen(less):
                    self._news = True
                    return
        self._refused.append(asked.kind)
        self.next_kind()

    def accepted(self) -> None:
        """The backend takes the request as it is asked now: what it refused before was refused for the constraint."""
        model = self._chat.model
        for kind in self._refused:
            if has_plain_names(self._chat):
                self._memory.note(model, self._kind_fact(kind))
                _log.warning("The backend of %s takes no %s: it is not asked for a while.", shown(model), kind)
        self._refused.clear()
        if self._full is not None and self._news:
            self._news = False
            self._memory.note(model, self._schema_fact(self._full), value=self._left_out)
            what = "a schema of its tools" if self._left_out == _OBJECTS else f"{', '.join(self._left_out)} in a schema"
            _log.warning(
                "The backend of %s refuses %s as %s: it is asked without, and calls are checked.",
                shown(model), what, self._full.kind,
            )  # fmt: skip

    def ignored(self, *, plainly: bool) -> None:
        """The backend took the constraint and did not keep to it: the next kind.

        plainly: what came cannot be an answer under any constraint of the kind.
        """
        asked = self.asked
        if asked is None or self._full is None:
            return
        model = self._chat.model
        if plainly and has_plain_names(self._chat):
            self._memory.note(model, self._kind_fact(asked.kind))
            _log.warning("The backend of %s ignores %s: it is not asked for a while.", shown(model), asked.kind)
        else:
            self._memory.note_own(model, self._own_fact(asked.kind))
        self.next_kind()

    # -- weaker constraints --------------------------------------------------------------------------------------

    def _loosen(self, left_out: tuple[str, ...]) -> bool:
        """Ask for the same kind without these keywords. Whether that is another request than the one at hand."""
        full, asked = self._full, self.asked
        if full is None:
            return False
        change = _to_objects if left_out == _OBJECTS else functools.partial(_without, keywords=left_out)
        found = constraint_requests(self._chat, self._format, self._settings, change=change)
        looser = next((one for one in found if one.kind == full.kind), None)
        self._left_out = left_out
        if looser is None or asked is None or looser.fields == asked.fields:
            return False
        self.asked = looser
        return True

    def _schemas(self) -> list[Any]:
        schemas: list[Any] = [tool.parameters for tool in self._chat.shown_tools.tools]
        answer = answer_schema(self._chat)
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


def _to_objects(schema: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - as a change
    return {"type": "object"}


def _without(schema: Mapping[str, Any], keywords: tuple[str, ...]) -> dict[str, Any]:
    looser: dict[str, Any] = without(schema, keywords)
    return looser
