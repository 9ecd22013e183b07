"""What rules one choice of an answer: the settings, and what message.py asks of the request and of the attempt."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ..formats.near_misses import NoCall
from ..parsing.values.coercion import Coercion
from ..settings import Settings
from ..settings.strictness import admits
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

    def of(
        self, warnings: Sequence[str], calls: Iterable[FinishedCall] = (), no_call: NoCall | None = None
    ) -> dict[str, Any]:
        """`{field: {"warning": text}}`; a general caution where nothing else is to be said.

        calls: those with an outcome that is not clean are counted under `outcomes`. no_call: why the answer holds no
        call; it is said in place of a warning.
        """
        said: dict[str, Any] = {"warning": "; ".join([*self.notes, *warnings]) or _ALWAYS}
        if no_call is not None:
            said = {"no_call": no_call.value}
        if outcomes := counted(calls):
            said["outcomes"] = outcomes
        return {self.field: said}


class AnswerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """What rules one choice: the settings that hold for the request, and facts of the request and of the attempt."""

    settings: Settings = Settings()
    one_call: bool = False
    """The model is stopped after its first call."""
    may_call: bool = False
    """Calls may come: content is null until there is text."""
    hold_prose: bool = False
    """Text waits for the first call: a retry would lose it otherwise."""
    hold_later: bool = False
    """Calls after the first are emitted when they are complete. One that is cut off is not emitted."""
    stop: tuple[str, ...] = ()
    """The client's stop strings."""
    custom: frozenset[str] = frozenset()
    """Names of the tools that take free text."""
    legacy: bool = False
    """The finish_reason of calls is the deprecated one, `function_call`."""
    native: bool = False
    """The backend was given the tools: its calls have ids."""
    check: Callable[[str, str], list[str]] | None = None
    """What is wrong with a finished call, given its name and arguments."""
    strict: frozenset[str] = frozenset()
    """Tools whose calls are refused under every setting where they do not fit."""
    held: frozenset[str] = frozenset()
    """Those of them whose calls are emitted after that check, and not while they are written."""
    extension: Extension | None = None
    full: Callable[[], bool] | None = None
    """Whether the model has written about as many tokens as the request allows."""
    coerce: Callable[[str], Coercion | None] | None = None
    """What gives the arguments of a tool's call the types of its schema; None where there is nothing to do."""
    report: CallReport | None = None
    """Who is told of finished calls."""
    offered: Collection[str] | None = None
    """The names that may be called; None for all."""
    near_misses: FindNearMisses | None = None
    """Finds text that looks like a call but is not one. None where no call can come."""
    retried: bool = False
    """The model was asked again, and this answer is the last."""
    tells_ends: bool = False
    """Emit a `CallClosed` for each emitted call. An `AnswerWriter` needs it; a chat stream has no such event."""

    def refuses_misfits_of(self, name: str) -> bool:
        """Whether a call of this tool is refused where `check` finds a fault; else the fault is a warning."""
        return self.settings.validate_arguments not in {"off", "warn"} or name in self.strict

    def admits(self, name: str) -> bool:
        """Whether the operator's allowlist lets a tool be called."""
        return self.settings.allowlist_mode == "off" or admits(self.settings.allowlist, name)

    @property
    def drops_prose(self) -> bool:
        """Whether text beside calls is left out. Where no call can come, no text is beside one."""
        return self.settings.prose == "drop" and self.may_call

    @property
    def is_straight(self) -> bool:
        """Whether text is emitted as it is."""
        return not (self.stop or self.hold_prose or self.drops_prose)
