"""How far a check is, on stderr: a bar in a terminal, lines elsewhere."""

from __future__ import annotations

import io
import sys

import pytest

from toolcall_middleware.cli.check.progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress(2) as step:
        step("first [bold]question")
        step("second")
    assert "2/2" in terminal.getvalue() or "1/2" in terminal.getvalue()
    assert "\x1b[" in terminal.getvalue()


def test_a_terminal_without_rich_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setitem(sys.modules, "rich.progress", None)
    with progress(2) as step:
        step("first")
    assert terminal.getvalue() == "check: 1/2 first\n"


def test_lines_come_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(3, clock=iter([0.0, 0.5, 1.0, 6.0]).__next__) as step:
        for name in ("a", "b", "c"):
            step(name)
    assert capsys.readouterr().err == "check: 1/3 a\ncheck: 3/3 c\n"
