"""What the client tests share: libraries that may be missing, and one tool whose result only the tool knows."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import secrets
from collections.abc import Callable, Collection
from types import ModuleType
from typing import Any

import pytest

FORMATS = ("json", "hermes")
MODEL = "fake-model"
ARGUMENTS: dict[str, Any] = {"city": "Paris", "days": 3}
CALL = ("lookup_code", ARGUMENTS)
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
}
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {"name": "lookup_code", "description": "Look up the code of a city.", "parameters": SCHEMA},
}
OTHER_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "send_mail",
        "description": "Send a mail.",
        "parameters": {"type": "object", "properties": {}},
    },
}
SYSTEM = "You are helpful."
QUESTION = "Call the tool lookup_code and then tell me exactly the code that it returned."


class LazyModule(ModuleType):
    """A library that is imported when something of it is used: not each process that collects its tests runs some."""

    def __getattr__(self, name: str) -> Any:
        # pytest asks each name of a module whether it is a test, a mock, wrapped ...
        if name.startswith("_") and name not in {"__file__", "__path__", "__version__"}:
            raise AttributeError(name)
        return getattr(importlib.import_module(self.__name__), name)


def need(module: str, *, extra: bool = True) -> Any:
    """The module; where it is missing the calling test module is skipped.

    With the variable CI=true a missing library of the extra `test` is a failure instead: the matrix has to run there.
    `extra` is false for a client that the extra leaves out, because it moves versions that the others need.
    """
    if importlib.util.find_spec(module.partition(".")[0]) is not None:
        return LazyModule(module)
    where = "pip install 'toolcall-middleware[test]'" if extra else "it is not in the extra `test`; install it by hand"
    return missing(f"{module} is not installed: {where}", extra=extra)


def missing(reason: str, *, extra: bool = True) -> None:
    """Skips the calling test or test module, or fails it where CI=true."""
    if extra and os.environ.get("CI", "").lower() == "true":
        pytest.fail(f"{reason} (CI=true)", pytrace=False)
    pytest.skip(reason, allow_module_level=True)


def matrix_of(*modules: str, but: Collection[str]) -> dict[str, Callable[..., Any]]:
    """The tests of other modules of this folder, to be run over another kind of upstream; `but` are left out.

    A module whose client is not installed has none: it says so itself, as skipped or, with CI=true, as failed.
    """
    found: dict[str, Callable[..., Any]] = {}
    for name in modules:
        try:
            module = importlib.import_module(f".test_{name}", __package__)
        except (pytest.skip.Exception, pytest.fail.Exception):
            continue
        tests = {test: made for test, made in vars(module).items() if test.startswith("test_") and test not in but}
        found |= {f"{test}_{name}": made for test, made in tests.items()}
    return found


class Lookup:
    """The tool. Each one has its own code, so an answer that holds it has come from the tool's result.

    `calls` are the arguments that it was run with.
    """

    def __init__(self) -> None:
        self.code = f"TOOLMARK-{secrets.token_hex(6)}"
        self.calls: list[dict[str, Any]] = []

    def run(self, city: str, days: int) -> str:
        """Look up the code of a city."""
        self.calls.append({"city": city, "days": days})
        return f"code {self.code} for day {days}"

    def run_json(self, arguments: str) -> str:
        return self.run(**json.loads(arguments))
