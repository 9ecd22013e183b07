"""How a family writes calls as JSON, as data."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonCallSyntax:
    """How a family writes JSON calls behind its opening marker.

    close: markers that end it, each optional at the end of the text. `keyed`: `{"f": {…}}`, the name is the key.
    bare: no marker stands before it, so only known keys keep it a candidate, and the call starts when its arguments
    are plainly JSON. wrapper: the key under which a list of calls may stand (`tool_calls`).
    separators: what may stand between two calls outside of a list. in_list: the marker has opened the list.
    """

    close: tuple[str, ...] = ()
    keyed: bool = False
    bare: bool = False
    wrapper: str | None = None
    wrapper_only: bool = False
    separators: str = ",;"
    in_list: bool = False
    names: frozenset[str] = frozenset({"name", "tool_name", "function", "tool", "recipient_name"})
    arguments: frozenset[str] = frozenset(
        {"arguments", "parameters", "args", "input", "params", "tool_input", "kwargs"}
    )
    ids: frozenset[str] = frozenset({"id", "tool_call_id", "call_id"})

    def knows(self, key: str) -> bool:
        """Whether calls have this key."""
        return key == "type" or key in self.names or key in self.arguments or key in self.ids
