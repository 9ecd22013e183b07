"""`toolcall-middleware formats`: formats with samples, and what the other APIs can do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.cli import dispatch as cli
from toolcall_middleware.formats import registry


def test_formats_lists_each_with_a_sample(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["formats"]) == 0
    written = capsys.readouterr().out
    for name in registry.names():
        assert f"{name} (built in)\n    " in written
    assert '    {"name": "get_weather", "arguments": {"city": "Paris", "days": 2}}\n    </tool_call>' in written


def test_formats_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["formats", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == registry.names()
    assert {row["source"] for row in rows} == {"built in"}
    assert all("get_weather" in row["sample"] for row in rows)


def test_a_format_of_another_package_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Foreign:
        name = "foreign"

        def render_calls(self, calls: list[Any]) -> str:
            return f"CALL {calls[0].name}"

    Foreign.__module__ = "somebody.formats"
    monkeypatch.setattr(registry, "names", lambda: ["foreign"])
    monkeypatch.setattr(registry, "get", lambda _name: Foreign())
    assert cli.main(["formats"]) == 0
    assert capsys.readouterr().out.startswith("foreign (somebody.formats)\n    CALL get_weather\n\n")


def test_formats_of_some_names_only(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["formats", "hermes"]) == 0
    assert capsys.readouterr().out.startswith("hermes (built in)\n    <tool_call>")
    assert cli.main(["formats", "hermess"]) == 2
    assert "did you mean hermes?" in capsys.readouterr().err
