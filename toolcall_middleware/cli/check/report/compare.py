"""`check --compare A B`: what came out better, worse or the same in B. Pure, but for `run`, which reads and prints."""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...command import UsageError
from ..table import shown
from .document import Calls, Document
from .folder import read

_VERDICTS = ("no", "partly", "yes")
"""From the worst to the best. What is unknown is not compared."""


class Change(enum.Enum):
    """What became of one row from A to B."""

    WORSE = "worse"
    BETTER = "better"
    EQUAL = "equal"
    ONLY_A = "only in A"
    ONLY_B = "only in B"


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that both checks looked at. `before` and `after` are its values in words."""

    check: str
    what: str
    change: Change
    before: str = ""
    after: str = ""


def run(first: Path, second: Path, *, as_json: bool) -> int:
    """Compares two reports, or folders of reports, and prints it. The exit code: 1 where something is worse in B.

    Raises UsageError for what is no report, and where there is nothing to compare.
    """
    rows = compare(read(first), read(second))
    if as_json:
        print(json.dumps(_as_json(rows), indent=2, ensure_ascii=False))
    else:
        print(text(rows), end="")
    return int(any(row.change is Change.WORSE for row in rows))


def compare(before: Sequence[Document], after: Sequence[Document]) -> list[Row]:
    """All rows. A single report on each side is compared with the other whatever model and backend it is of.

    Raises UsageError where the two have nothing in common, or were asked different questions.
    """
    if len(before) == len(after) == 1:
        pairs = [(before[0], after[0])]
    else:
        known = {_key(one): one for one in before}
        pairs = [(known[_key(one)], one) for one in after if _key(one) in known]
    rows: list[Row] = []
    for old, new in pairs:
        if old.questions.digest != new.questions.digest:
            raise UsageError(f"{_name(old, new)}: other questions were asked ({old.questions.source}, "
                             f"{new.questions.source}); the counts say nothing of each other.")  # fmt: skip
        rows += _calls(_name(old, new), old, new)
        rows += _findings(_name(old, new), old, new)
    if not any(row.change not in {Change.ONLY_A, Change.ONLY_B} for row in rows):
        raise UsageError("the reports have nothing in common to compare.")
    return rows


def _key(one: Document) -> tuple[str, ...]:
    return one.backend, one.model, one.api, one.questions.source


def _name(old: Document, new: Document) -> str:
    names = [f"{one.model} on {one.backend}" for one in (old, new)]
    return names[0] if names[0] == names[1] else " -> ".join(names)


def _calls(check: str, old: Document, new: Document) -> Iterator[Row]:
    before, after = ({calls.way: calls for calls in one.calls if calls.asked} for one in (old, new))
    for way in dict.fromkeys([*before, *after]):
        one, other = before.get(way), after.get(way)
        if one is None or other is None:
            given = one or other
            change = Change.ONLY_A if other is None else Change.ONLY_B
            told = "" if given is None else _counts(given)
            yield Row(check, way, change, told if other is None else "", told if one is None else "")
        else:
            yield Row(check, way, _change(one.score, other.score), _counts(one), _counts(other))


def _counts(calls: Calls) -> str:
    repaired = f", {calls.repaired} repaired" if calls.repaired else ""
    latency = f", {calls.latency.median:.2f} s" if calls.latency is not None else ""
    return f"{calls.right + calls.repaired}/{calls.asked} right{repaired}{latency}"


def _findings(check: str, old: Document, new: Document) -> Iterator[Row]:
    before = {one.key: one.verdict for one in old.findings}
    for one in new.findings:
        earlier = before.get(one.key)
        if earlier in _VERDICTS and one.verdict in _VERDICTS:
            change = _change(_VERDICTS.index(earlier), _VERDICTS.index(one.verdict))
            yield Row(check, one.what, change, earlier, one.verdict)


def _change(before: Any, after: Any) -> Change:
    if before == after:
        return Change.EQUAL
    return Change.BETTER if after > before else Change.WORSE


def text(rows: Sequence[Row]) -> str:
    """Rows that differ, and how many there are of each kind, for a person."""
    lines: list[str] = []
    check = ""
    for row in sorted(rows, key=lambda row: row.check):
        if row.change is Change.EQUAL:
            continue
        if row.check != check:
            check = row.check
            lines += [*([""] if lines else []), shown(check)]
        values = " -> ".join(value or "-" for value in (row.before, row.after))
        lines.append(f"  {row.change.value:<9}  {shown(f'{row.what}: {values}')}")
    counts = ", ".join(f"{number} {change.value}" for change, number in _numbers(rows).items() if number)
    return "\n".join([*lines, *([""] if lines else []), counts, ""])


def _numbers(rows: Sequence[Row]) -> dict[Change, int]:
    return {change: sum(row.change is change for row in rows) for change in Change}


def _as_json(rows: Sequence[Row]) -> dict[str, Any]:
    listed = [
        {"check": row.check, "what": row.what, "change": row.change.value, "before": row.before, "after": row.after}
        for row in rows
    ]
    return {"counts": {change.value: number for change, number in _numbers(rows).items()}, "rows": listed}
