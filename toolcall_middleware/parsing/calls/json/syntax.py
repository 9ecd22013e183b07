"""How a family writes calls as JSON, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_OF_MESSAGE = frozenset({"role", "content"})  # what an assistant's message holds besides its calls


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCallSyntax:
    """How a family writes JSON calls behind its opening marker."""

    close: tuple[str, ...] = ()
    """Markers that end it, each optional at the end of the text."""
    keyed: bool = False
    """`{"f": {…}}`: the name is the key."""
    bare: bool = False
    """No marker stands before it, so only known keys keep it a candidate, and the call starts when its arguments are
    plainly JSON."""
    no_other_keys: bool = False
    """A key that calls do not have makes the object no call behind its arguments, too. Only a reader that reports
    nothing before the call ends can take it back then."""
    wrappers: frozenset[str] = frozenset({"tool_calls"})
    """Keys under which a list of calls, or one call, may stand (`tool_calls`), unless keys are names."""
    message: bool = False
    """What opened it has shown an assistant's message, in which such a list stands."""
    wrapper_only: bool = False
    """Nothing but that list is a call."""
    separators: str = ",;"
    """What may stand between two calls outside of a list."""
    in_list: bool = False
    """The marker has opened the list."""
    names: frozenset[str] = frozenset({"name", "tool_name", "function", "tool", "recipient_name", "action"})
    arguments: frozenset[str] = frozenset(
        {"arguments", "parameters", "args", "input", "params", "tool_input", "kwargs", "action_input"}
    )
    ids: frozenset[str] = frozenset({"id", "tool_call_id", "call_id"})

    def takes(self, key: str, *, outer: bool, begun: bool, beside: Mapping[str, str]) -> bool:
        """Whether an object with this key may be a call: without a marker its keys must be those of one, or of an
        assistant's message that holds some.

        outer: it is not within another. begun: calls have been read in it. beside: its members so far, as JSON.
        """
        if not self.bare or (begun and not self.no_other_keys) or (outer and key in self.wrappers):
            return True
        of_message = key in _OF_MESSAGE
        by_assistant = beside.get("role") == '"assistant"'
        if outer and self.wrappers and (of_message or by_assistant):
            return of_message and (self.message or by_assistant or key == "role")
        known = key == "type" or key in self.names or key in self.arguments or key in self.ids
        return known and not self.wrapper_only
