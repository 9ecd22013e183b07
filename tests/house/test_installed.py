"""The command that adds an extra names where this copy came from, not an index that does not have it."""

from __future__ import annotations

import json
import re
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import toolcall_middleware
from toolcall_middleware.installed import install_command

ROOT = Path(toolcall_middleware.__file__).parent


class Installed:
    """A distribution that says where it came from."""

    def __init__(self, origin: Any) -> None:
        self._origin = origin

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self._origin if self._origin is None or isinstance(self._origin, str) else json.dumps(self._origin)


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({"url": "file:///src/my%20copy", "dir_info": {}}, "pip install '/src/my copy[hf]'"),
        ({"url": "file:///src/it", "dir_info": {"editable": True}}, "pip install -e '/src/it[hf]'"),
        (
            {"url": "file:///tmp/t-0.3.0-py3-none-any.whl", "archive_info": {}},
            "pip install 'toolcall-middleware[hf] @ file:///tmp/t-0.3.0-py3-none-any.whl'",
        ),
        (
            {"url": "https://git.example/t.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "pip install 'toolcall-middleware[hf] @ git+https://git.example/t.git@abc'",
        ),
        (None, "pip install 'toolcall-middleware[hf]'"),
        ("{", "pip install 'toolcall-middleware[hf]'"),
    ],
)
def test_an_extra_comes_from_where_the_copy_came(origin: Any, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "distribution", lambda _name: Installed(origin))
    assert install_command("hf") == command


def test_files_that_were_never_installed_are_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    assert install_command("hf") == f"pip install '{ROOT.parent}[hf]'"


def test_no_message_names_the_index() -> None:
    named = [
        path.relative_to(ROOT).as_posix()
        for path in ROOT.rglob("*.py")
        if re.search(r"""pip install ['"]?toolcall-middleware""", path.read_text("utf-8"))
    ]
    assert named == []
