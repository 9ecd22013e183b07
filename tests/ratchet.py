"""Counts the lines of the product, as a whole and by room, and the files that a request enters.

`python -m tests.ratchet` writes the counts to `ratchet.json`.

`tests/house/test_house.py` compares them. The numbers only fall, except where a commit says why one rises.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import toolcall_middleware

ROOT = Path(toolcall_middleware.__file__).parent
LIMITS = Path(__file__).with_suffix(".json")


def count() -> dict[str, int]:
    """The lines of Python by room (those at the top under `.`), their sum under `whole`, and the files entered."""
    rooms: dict[str, int] = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        room = parts[0] if len(parts) > 1 else "."
        rooms[room] = rooms.get(room, 0) + len(path.read_text("utf-8").splitlines())
    command = [sys.executable, "-m", "tests.entered"]
    done = subprocess.run(command, cwd=ROOT.parent, stdout=subprocess.PIPE, check=True, timeout=60)
    entered = {name: len(files) for name, files in json.loads(done.stdout).items()}
    return {**rooms, "whole": sum(rooms.values()), **entered}


if __name__ == "__main__":
    LIMITS.write_text(json.dumps(count(), indent=2) + "\n", "utf-8")
