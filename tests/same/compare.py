"""What two sides said, compared: which names differ, which of these are wanted, and how both texts look."""

from __future__ import annotations

import fnmatch
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

_AROUND = 160  # characters shown on each side of the first difference


@dataclass(frozen=True, slots=True)
class Allowed:
    """A kind of difference that is wanted."""

    glob: str
    reason: str


def read_allowed(path: Path) -> list[Allowed]:
    """The lines of an `--allow` file. Raises ValueError for one without a reason."""
    found: list[Allowed] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        glob, _, reason = line.strip().partition(" ")
        if not glob or glob.startswith("#"):
            continue
        if not reason.strip():
            raise ValueError(f"{path}:{number}: {glob} has no reason")
        found.append(Allowed(glob, reason.strip()))
    return found


def read_hashes(path: Path) -> dict[str, str]:
    """name: hash, in the order of the file. Raises ValueError for a name that comes twice."""
    found: dict[str, str] = {}
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            name, _, digest = line.rstrip("\n").partition("\t")
            if name in found:
                raise ValueError(f"two items have the name {name}")
            found[name] = digest
    return found


@dataclass(slots=True)
class Comparison:
    """Which names differ, by section; `wanted` counts by glob what was allowed."""

    items: Counter[str] = field(default_factory=Counter)
    differing: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    wanted: Counter[str] = field(default_factory=Counter)


def section(name: str) -> str:
    """The section of an item."""
    return name.partition("/")[0]


def compare(old: dict[str, str], new: dict[str, str], allowed: list[Allowed]) -> Comparison:
    """Both sides' hashes. An item that only one side has differs."""
    made = Comparison()
    for name in [*old, *(name for name in new if name not in old)]:
        made.items[section(name)] += 1
        if old.get(name) == new.get(name):
            continue
        reasons = [entry for entry in allowed if fnmatch.fnmatchcase(name, entry.glob)]
        made.wanted.update(entry.glob for entry in reasons)
        (made.allowed if reasons else made.differing).append(name)
    return made


def spread(names: list[str], count: int) -> list[str]:
    """Up to `count` of the names: one of each kind first (the section and the last part), then the others in order."""
    kinds: dict[tuple[str, str], str] = {}
    for name in names:
        kinds.setdefault((section(name), name.rpartition("/")[2]), name)
    first = list(kinds.values())[:count]
    return [*first, *(name for name in names if name not in first)][:count]


def shown(name: str, old: str | None, new: str | None) -> str:
    """A difference for people: both texts from a little before the first character that is not the same."""
    if old is None or new is None:
        have = "OLD" if new is None else "NEW"
        text = (new if old is None else old) or ""
        return f"{name}: only in {have}\n    {have}: {_line(text[: 2 * _AROUND], end=len(text) > 2 * _AROUND)}"
    at = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    if at is None:
        at = min(len(old), len(new))
    lines = [f"{name}: at character {at} ({len(old)} and {len(new)} in all)"]
    for side, text in (("OLD", old), ("NEW", new)):
        begin = max(0, at - _AROUND // 2)
        piece = text[begin : at + _AROUND]
        lines.append(f"    {side}: {_line(piece, begin=begin > 0, end=at + _AROUND < len(text))}")
    return "\n".join(lines)


def _line(text: str, *, begin: bool = False, end: bool = False) -> str:
    """Text on one line, line ends and control characters escaped."""
    safe = "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode() for char in text
    )
    return f"{'…' if begin else ''}{safe}{'…' if end else ''}"
