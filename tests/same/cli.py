"""The commands as a user sees them, and the table of settings."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from . import chats, material, product

Groups = Iterator[tuple[str, Callable[[], dict[str, str]]]]

_BAD: tuple[Any, ...] = (
    "",
    "none",
    "nonsense",
    "0",
    "-1",
    "1.5",
    "10k",
    "true",
    "a,b",
    "x\ny",
    0,
    -1,
    2.5,
    True,
    None,
    [],
)
_ENVIRONMENTS: dict[str, dict[str, str]] = {
    "nothing": {},
    "gateway": {"TOOLCALL_PROFILE": "gateway", "TOOLCALL_MAX_TOOLS": "7"},
    "strict": {"TOOLCALL_PROFILE": "strict", "TOOLCALL_RETRIES": "2", "TOOLCALL_FORMAT": "hermes"},
    "secrets": {"TOOLCALL_UPSTREAM_KEY": "sk", "TOOLCALL_RATE_LIMIT_STORAGE": "redis://u:p@localhost/0"},
    "empty": {"TOOLCALL_MODE": "", "TOOLCALL_PATHS": "/a,/b"},
    "unknown": {"TOOLCALL_FROMAT": "hermes"},
    "far": {"TOOLCALL_ZZZZZZZZZZ": "1"},
    "bad-value": {"TOOLCALL_MODE": "promt"},
    "bad-format": {"TOOLCALL_FORMAT": "herms"},
    "bad-number": {"TOOLCALL_MAX_TOOLS": "many"},
}


def cli(run: Any) -> Groups:
    """`--help` of each command; what `config`, `formats`, `replay` print; each setting with odd values."""
    for command in ("", *_commands()):
        yield f"help/{command or 'itself'}", partial(_command, *([command] if command else []), "--help")
    for arguments in (
        ("--version",), (), ("nonsense",), ("config", "--nonsense"), ("serve", "--set", "x"), ("serve", "--set", "x=1"),
        ("serve", "--port", "x"), ("check",), ("formats",), ("formats", "--json"), ("formats", "--providers"),
        ("formats", "--providers", "--json"),
    ):  # fmt: skip
        yield f"run/{'_'.join(arguments) or 'nothing'}", partial(_command, *arguments)
    for name, variables in _ENVIRONMENTS.items():
        yield f"config/{name}", partial(_command, "config", **variables)
        if not run.quick:
            yield f"config-json/{name}", partial(_command, "config", "--json", **variables)
    for name, text in _texts().items():
        yield f"replay/{name}", partial(_replay, text, ())
        if not run.quick:
            yield f"replay-json/{name}", partial(_replay, text, ("--json",))
    yield "settings/all", _settings
    for name in _names():
        yield f"settings/{name}", partial(_odd_values, name)


def _command(*arguments: str, **variables: str) -> dict[str, str]:
    """What a command prints, and its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(list(arguments), folder, variables)


def _run(arguments: list[str], folder: str, variables: dict[str, str]) -> dict[str, str]:
    # As `python -m` does it, in this process: a hundred processes would take as long as all other sections.
    printed = [io.BytesIO(), io.BytesIO()]
    out, err = (io.TextIOWrapper(kept, "utf-8", "surrogateescape", write_through=True) for kept in printed)
    code: object = None
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        contextlib.chdir(folder),
        _world([product.PACKAGE, *arguments], variables),
    ):
        try:
            runpy.run_module(product.PACKAGE, run_name="__main__", alter_sys=True)
        except SystemExit as end:
            code = end.code
        except Exception as error:  # noqa: BLE001 - what a user would see is behaviour as well
            err.write(f"{product.RAISED}{type(error).__name__}: {error}")
    shown = [kept.getvalue().decode("utf-8", "surrogateescape").replace(folder, "FOLDER") for kept in printed]
    return {"out": shown[0], "err": shown[1], "code": repr(code)}


@contextlib.contextmanager
def _world(arguments: list[str], variables: dict[str, str]) -> Iterator[None]:
    """Inside, the process was started with these arguments and variables."""
    before = sys.argv
    sys.argv = arguments
    os.environ.update(variables)
    try:
        yield
    finally:
        sys.argv = before
        for name in variables:
            del os.environ[name]


def _commands() -> list[str]:
    """The commands that the main help lists."""
    listed = _command("--help")["out"].partition("commands:")[2]
    found = re.findall(r"^    (\w+) ", listed, re.MULTILINE)
    if not found:
        raise product.DriverError(f"no commands in the help: {listed}")
    return found


def _texts() -> dict[str, bytes]:
    call = b'Well. <tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n</tool_call>'
    return {
        "text": call,
        "cut": call[:-40],
        "stream": b"".join(material.chunks(call.decode(), [5])),
        "whole": json.dumps(chats.completion(call.decode())).encode(),
        "empty": b"",
    }


def _replay(text: bytes, arguments: tuple[str, ...]) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "captured")
        path.write_bytes(text)
        return _run(["replay", "captured", *arguments], folder, {})


def _package() -> Any:
    import toolcall_middleware

    return toolcall_middleware


def _names() -> list[str]:
    rows: list[tuple[str, str, str]] = _package().Settings().explain()
    return [name for name, _, _ in rows]


def _settings() -> dict[str, str]:
    settings = _package().Settings
    return {
        profile: "\n".join(" | ".join(row) for row in settings(profile=profile).explain())
        for profile in ("compat", "gateway", "strict")
    }


def _odd_values(name: str) -> dict[str, str]:
    """What each value becomes, or the message that refuses it."""
    settings = _package().Settings
    lines = [f"{value!r}: {product.said(_value, settings, name, value)}" for value in _BAD]
    return {"values": "\n".join(lines)}


def _value(settings: Any, name: str, value: Any) -> str:
    made = settings(**{name: value})
    return next(f"{shown} ({source}) {getattr(made, name)!r}" for row, shown, source in made.explain() if row == name)
