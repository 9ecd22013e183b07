"""Counts the lines of the product, as a whole and by room: `python -m tests.ratchet` writes them to `ratchet.json`.

`tests/test_house.py` compares them. The numbers only fall, except where a commit says why one rises.
"""

from __future__ import annotations

import json
from pathlib import Path

import toolcall_middleware

ROOT = Path(toolcall_middleware.__file__).parent
LIMITS = Path(__file__).with_suffix(".json")


def count() -> dict[str, int]:
    """The lines of all Python files by room, those at the top under `.`, and the sum of all under `whole`."""
    rooms: dict[str, int] = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        room = parts[0] if len(parts) > 1 else "."
        rooms[room] = rooms.get(room, 0) + len(path.read_text("utf-8").splitlines())
    return {**rooms, "whole": sum(rooms.values())}


if __name__ == "__main__":
    LIMITS.write_text(json.dumps(count(), indent=2) + "\n", "utf-8")
