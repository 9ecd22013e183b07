"""What rules one choice of an answer: the settings and the request's wishes, brought to what message.py asks for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..parsing.values.coercion import Coercion
from .outcome import CallReport, FindNearMisses, FinishedCall, counted

_ALWAYS = (
    "tool calls are written by a model: check them before you run them; "
    "none has been run: the client runs the tools and sends their results"
)


@dataclass(frozen=True, slots=True)
class Extension:
    """`field` with what there is to warn of. `notes` are the request's own warnings, such as of its tool results."""

    field: str
    notes: tuple[str, ...] = ()

    def of(self, warnings: Sequence[str], calls: Iterable[FinishedCall] = ()) -> dict[str, Any]:
        """`{field: {"warning": text}}`; a general caution where nothing else is to be said.

        calls: those with an outcome that is not clean are counted under `outcomes`.
        """
        said: dict[str, Any] = {"warning": "; ".join([*self.notes, *warnings]) or _ALWAYS}
        if outcomes := counted(calls):
            said["outcomes"] = outcomes
        return {self.field: said}


class AnswerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The settings and the request's wishes, as far as they rule one choice."""

    max_calls: int | None = None
    """After so many calls the model is stopped."""
    limited: bool = False
    """`max_calls` is the operator's `max_tool_calls`: the client is told when it stops the model."""
    may_call: bool = False
    """Calls may come: content is null until there is text."""
    hold_prose: bool = False
    """Text waits for the first call: a retry would lose it otherwise."""
    drop_prose: bool = False
    """Text beside calls is left out."""
    stream_arguments: bool = True
    hold_later: bool = False
    """Calls behind the first leave when they are complete. One that is cut off does not leave."""
    malformed: str = "repair"
    """The setting `malformed_arguments`."""
    reasoning_field: str | None = None
    max_arguments_bytes: int | None = None
    max_held: int | None = None
    """How many characters of text may wait."""
    stop: tuple[str, ...] = ()
    """The client's stop strings."""
    custom: frozenset[str] = frozenset()
    """Names of the tools that take free text."""
    legacy: bool = False
    """The finish_reason of calls is the deprecated one, `function_call`."""
    keep_ids: bool = False
    """A call keeps the id that it came with."""
    write_ids: bool = False
    """A call gets an id from which its own can be read back (call_id_codec.py)."""
    check: Callable[[str, str], list[str]] | None = None
    """What is wrong with a finished call, given its name and arguments."""
    warn_only: bool = False
    """What `check` finds is kept in the warnings; else the call is refused."""
    strict: frozenset[str] = frozenset()
    """Tools whose calls are refused under every setting where they do not fit."""
    held: frozenset[str] = frozenset()
    """Those of them whose calls are emitted after that check, and not while they are written."""
    admits: Callable[[str], bool] | None = None
    """Whether the operator's allowlist lets a tool be called; None where there is no list."""
    admit_only_warns: bool = False
    """A call that the list does not admit is kept in the warnings; else it is refused."""
    extension: Extension | None = None
    objects: bool = False
    """Arguments that are no object are malformed."""
    full: Callable[[], bool] | None = None
    """Whether the model has written about as many tokens as the request allows."""
    coerce: Callable[[str], Coercion | None] | None = None
    """What gives the arguments of a tool's call the types of its schema; None where there is nothing to do."""
    report: CallReport | None = None
    """Who is told of finished calls."""
    offered: Collection[str] | None = None
    """The names that may be called; None for all."""
    near_misses: FindNearMisses | None = None
    """Finds text that looks like a call but is not one. None where nothing is logged about it."""
    retried: bool = False
    """The model was asked again, and this answer is the last."""
    tells_ends: bool = False
    """Emit a `CallClosed` for each emitted call. An `AnswerWriter` needs it; a chat stream has no such event."""

    def refuses_misfits_of(self, name: str) -> bool:
        """Whether a call of this tool is refused where `check` finds a fault."""
        return not self.warn_only or name in self.strict

    @property
    def is_straight(self) -> bool:
        """Whether text leaves as it is."""
        return not (self.stop or self.hold_prose or self.drop_prose or self.near_misses)
