"""The constraints that one request asks for in turn, and what refusals of them teach.

A backend that refuses a constraint may not know one keyword of a schema, or not know the kind of constraint at all.
So it is asked again without the keywords that it names (or, where it names none, without all that can go), then with
arguments that are only said to be objects. Where it refuses that too, it does not take the kind; for nothing in that
request was of the client's making, this holds for all. Anything less is remembered of that schema only.

Nothing is remembered before the backend has taken the same request in another way: then the constraint was the fault.
"""

from __future__ import annotations

import functools
import logging
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import shown
from ..fading_memory import digest
from ..formats.base import ToolFormat
from ..json_schema.grammars.text import with_grammar
from ..json_schema.loosen import loose_keywords, named_keywords, without
from ..request.parse import ChatRequest
from ..settings import Settings
from .backend_memory import BackendMemory
from .constraints import ConstraintRequest, answer_schema, constraint_requests
from .request_shape import has_plain_names, odd_fields

_log = logging.getLogger("toolcall_middleware")
_OBJECTS = ("*",)
"""Stands for all keywords: arguments are only said to be objects."""
_UNKNOWN_TYPE = re.compile(
    r"""\W*(?:error\W+)?(?:code\W+\d+\W+)?(?:message\W+)?(?:
    response_format\ type\ must\ be\ one\ of[^a-z]+text\W+or\W+json_object\W+but\ got
    | 1\ validation\ error:\\n\s+\{'type':\ 'literal_error',\ 'loc':\ \('body',\ 'response_format',\ 'type'\)
    )""",
    re.VERBOSE,
)
"""How llama.cpp's server and llama-cpp-python's begin to say that they do not know the kind, whatever its schema: no
schema has been looked at then, and nothing of the client's stands before these words."""
_MOST_REFUSALS = 8
"""Of one request's constraints; then it is asked without any."""


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
            for asking in constraint_requests(chat, fmt, settings, memory)
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
        found = constraint_requests(self._chat, self._format, self._settings, self._memory, change=change)
        looser = next((one for one in found if one.kind == full.kind), None)
        self._left_out = left_out
        if looser is None or asked is None or looser.fields == asked.fields:
            return False
        self.asked = looser
        return True

    def _schemas(self) -> list[Any]:
        schemas: list[Any] = [with_grammar(tool) for tool in self._chat.callable_tools.tools]
        answer = answer_schema(self._chat)
        return schemas if answer is None else [*schemas, answer]

    def _kind_fact(self, kind: str) -> str:
        return f"no {kind}{self._shape}"

    def _own_fact(self, kind: str) -> str:
        return f"{self._kind_fact(kind)} for {digest(self._chat.tools_raw)}"

    def _is_known(self, kind: str) -> bool:
        memory, model = self._memory, self._chat.model
        return memory.knows(model, self._kind_fact(kind)) or memory.knows(model, self._own_fact(kind))

    def _schema_fact(self, asked: ConstraintRequest) -> str:
        return f"{asked.kind} as {digest(msgspec.json.encode(asked.fields), self._shape.encode())}"


def _to_objects(schema: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG001 - as a change
    return {"type": "object"}


def _without(schema: Mapping[str, Any], keywords: tuple[str, ...]) -> dict[str, Any]:
    looser: dict[str, Any] = without(schema, keywords)
    return looser
