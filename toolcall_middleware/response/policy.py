"""What rules one choice of an answer: the settings and the request's wishes, brought to what message.py asks for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..parsing.text.reasoning import Opened
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
    """The settings and the request's wishes, as far as they rule one choice.

    max_calls: after so many calls the model is stopped. hold_prose: text waits for the first call (it is lost to a
    retry otherwise). max_held: how many characters may wait. custom: names of tools that take free text. legacy: the
    finish_reason of calls is the deprecated one. keep_ids: a call keeps the id it came with; write_ids: it gets one
    that holds it (ids). check: what is wrong with a finished call (name, arguments); warn_only: that is kept in
    `warnings`, else the call is refused. admits: whether a tool may be called at all; admit_only_warns likewise.
    objects: arguments that are no object are malformed.
    full: whether the model has written about as much as the request allows.
    limited: `max_calls` is the operator's `max_tool_calls`, and who is stopped by it is told. hold_later: calls behind
    the first leave when they are complete; one that is cut off does not.
    """

    max_calls: int | None = None
    limited: bool = False
    may_call: bool = False
    """Calls may come: content is null until there is text."""
    hold_prose: bool = False
    drop_prose: bool = False
    stream_arguments: bool = True
    hold_later: bool = False
    malformed: str = "repair"
    reasoning_field: str | None = None
    max_arguments_bytes: int | None = None
    max_held: int | None = None
    stop: tuple[str, ...] = ()
    custom: frozenset[str] = frozenset()
    legacy: bool = False
    keep_ids: bool = False
    write_ids: bool = False
    check: Callable[[str, str], list[str]] | None = None
    warn_only: bool = False
    checked: frozenset[str] = frozenset()
    """Tools with `strict: true`, whose calls are checked though arguments are not validated."""
    held: frozenset[str] = frozenset()
    """Those whose calls wait for that."""
    admits: Callable[[str], bool] | None = None
    admit_only_warns: bool = False
    extension: Extension | None = None
    objects: bool = False
    full: Callable[[], bool] | None = None
    coerce: Callable[[str], Coercion | None] | None = None
    """What gives the arguments of a tool's call the types of its schema; None where there is nothing to do."""
    opened: Opened | None = None
    """The thought that the prompt has opened, as far as is known."""
    report: CallReport | None = None
    offered: Collection[str] | None = None
    """The names that may be called; None for all."""
    near_misses: FindNearMisses | None = None
    """Finds text that looks like a call but is not one. None where nothing is logged about it."""
    retried: bool = False
    """The model was asked again, and this answer is the last."""

    @property
    def is_straight(self) -> bool:
        """Whether text leaves as it is."""
        return not (self.stop or self.hold_prose or self.drop_prose or self.near_misses)
