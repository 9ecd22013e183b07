"""A Starlette with a known hole is told of at start, once, and a sound one is not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from toolcall_middleware import ToolCallMiddleware
for _ in range(2):
    ToolCallMiddleware(lambda scope, receive, send: None)
"""


def told(folder: Path, version: str) -> str:
    """What a process says that has this version installed, as far as it can be known."""
    installed = folder / f"starlette-{version}.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: starlette\nVersion: {version}\n", "utf-8")
    command = [sys.executable, "-c", PROGRAM, str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr


@pytest.mark.parametrize("version", ["0.36.0", "0.52.1", "1.0.0", "1.0.0rc1"])
def test_a_hole_is_told_once(version: str, tmp_path: Path) -> None:
    said = told(tmp_path, version)
    assert said.count("CVE-2026-48710") == 1
    assert f"Starlette {version} " in said
    assert "1.0.1" in said


@pytest.mark.parametrize("version", ["1.0.1", "1.10.0", "2.0"])
def test_a_sound_one_is_not_told_of(version: str, tmp_path: Path) -> None:
    assert told(tmp_path, version) == ""
