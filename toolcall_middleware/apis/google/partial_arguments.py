"""A call's arguments that come in pieces, each with the JSON path of the value it belongs to.

Vertex AI sends these where `streamFunctionCallArguments` is set; the Gemini API does not. Only names and indexes occur
in the paths (RFC 9535's singular queries): `$.location`, `$.items[0].name`, `$['odd name']`.
"""

from __future__ import annotations

import re
from typing import Any

_STEP = re.compile(r"""\.([^.\[\]'"]+)|\[([0-9]{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_MAX_STEPS = 64
_VALUES = ("stringValue", "numberValue", "boolValue", "nullValue")


class PartialArguments:
    """Puts the arguments of one call together."""

    __slots__ = ("_pieces", "_root")

    def __init__(self, begun: Any = None) -> None:
        self._root: dict[str, Any] = dict(begun) if isinstance(begun, dict) else {}
        self._pieces: dict[tuple[str | int, ...], list[str]] = {}

    def feed(self, pieces: Any) -> None:
        """The next `partialArgs`. What has no readable path is left out: it has no place in the arguments."""
        for piece in pieces if isinstance(pieces, list) else ():
            steps = _steps(piece.get("jsonPath")) if isinstance(piece, dict) else None
            name = next((name for name in _VALUES if name in piece), None) if steps else None
            if not steps or name is None:
                continue
            value = None if name == "nullValue" else piece[name]
            if name == "stringValue":
                # A long string comes in several pieces.
                self._pieces.setdefault(steps, []).append(str(value))
            else:
                if isinstance(value, float) and value.is_integer():
                    value = int(value)
                _put(self._root, steps, value)

    def value(self) -> dict[str, Any]:
        """The arguments as far as they have come."""
        for steps, pieces in self._pieces.items():
            _put(self._root, steps, "".join(pieces))
        self._pieces.clear()
        return self._root


def _steps(path: Any) -> tuple[str | int, ...] | None:
    if not isinstance(path, str) or not path.startswith("$"):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None or len(steps) == _MAX_STEPS:
            return None
        if found[2] is not None:
            steps.append(int(found[2]))
        else:
            quoted = found[3] if found[3] is not None else found[4]
            steps.append(found[1] if quoted is None else re.sub(r"\\(.)", r"\1", quoted))
        at = found.end()
    return tuple(steps) or None


def _put(root: dict[str, Any], steps: tuple[str | int, ...], value: Any) -> None:
    """Set the value at a place, with the objects and arrays that lead there."""
    at: Any = root
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        empty: Any = value if following is None else [] if isinstance(following, int) else {}
        if isinstance(step, int):
            if not isinstance(at, list) or step > len(at):
                return  # indexes come in order
            if step == len(at):
                at.append(empty)
            elif following is None:
                at[step] = value
            at = at[step]
        else:
            if not isinstance(at, dict):
                return
            if following is None:
                at[step] = value
            at = at.setdefault(step, empty)
