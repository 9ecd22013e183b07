"""How far a check is, on stderr: one line in a terminal, lines elsewhere."""

from __future__ import annotations

import sys

import pytest

from toolcall_middleware.cli.check.run import progress

from ..terminal import Terminal


def test_a_terminal_gets_one_line_that_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("COLUMNS", "40")
    with progress(2) as step:
        step("first [bold]question of a name that is long")
        step("second")
    written = terminal.getvalue()
    assert "\n" not in written
    lines = written.split("\r")
    assert lines[1].startswith("check: 1/2 first [bold]question")
    assert lines[2].startswith("check: 2/2 second")
    assert [lines[-2].strip(), lines[-1]] == ["", ""]
    assert max(map(len, lines)) < 40


def test_lines_come_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(3, clock=iter([0.0, 0.5, 1.0, 6.0]).__next__) as step:
        for name in ("a", "b", "c"):
            step(name)
    assert capsys.readouterr().err == "check: 1/3 a\ncheck: 3/3 c\n"


def test_an_estimate_comes_once_there_is_something_to_go_by(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(103, clock=iter([0.0, 0.0, 2.0, 4.0, 6.0, 206.0]).__next__) as step:
        for name in ("a", "b", "c", "d", "e"):
            step(name)
    assert capsys.readouterr().err.splitlines() == [
        "check: 1/103 a",
        "check: 4/103 d, at most 3 min left",
        "check: 5/103 e, at most 85 min left",
    ]
