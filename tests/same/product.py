"""The few names of the package that the driver needs, wherever they lie, and its values as canonical text."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

PACKAGE = "toolcall_middleware"
_LIKELY = (f"{PACKAGE}.model", f"{PACKAGE}.formats.base")


class DriverError(Exception):
    """The driver does not fit the package: nothing can be said of its behaviour."""


@functools.cache
def find(name: str) -> Any:
    """The class `name` of the package, from the module that makes it. Raises DriverError where there is none."""
    for module in (*_LIKELY, *_modules()):
        try:
            found = getattr(importlib.import_module(module), name, None)
        except ImportError:  # it lies elsewhere by now; or it needs an optional library
            continue
        if isinstance(found, type) and found.__module__.partition(".")[0] == PACKAGE:
            return found
    raise DriverError(f"{PACKAGE} has no class {name}")


def _modules() -> Iterator[str]:
    """All modules of the package but those that run when they are imported."""
    root = importlib.import_module(PACKAGE)
    for found in pkgutil.walk_packages(root.__path__, f"{PACKAGE}.", onerror=lambda _name: None):
        if not found.name.endswith("__main__"):
            yield found.name


def registry() -> Any:
    """The module that knows the formats by name."""
    return importlib.import_module(f"{PACKAGE}.formats.registry")


def tool(function: dict[str, Any]) -> Any:
    """A client's function as the package's own value."""
    given = {"description": function["description"]} if "description" in function else {}
    return find("Tool")(
        function["name"],
        parameters=function.get("parameters") or {"type": "object", "properties": {}},
        strict=bool(function.get("strict")),
        **given,
    )


def tool_set(functions: list[dict[str, Any]] | None) -> Any:
    """The functions as a set; None for any."""
    return None if functions is None else find("ToolSet").of([tool(function) for function in functions])


def choice(mode: str, name: str | None, allowed: list[str] | None, *, parallel: bool) -> Any:
    """A resolved tool choice."""
    return find("ToolChoice")(
        find("ChoiceMode")(mode), name, None if allowed is None else frozenset(allowed), parallel=parallel
    )


def call(name: str, arguments: str, call_id: str | None) -> Any:
    """A finished call."""
    return find("ToolCall")(name, arguments, id=call_id)


def result(name: str, content: str, call_id: str | None, *, is_error: bool) -> Any:
    """What a tool gave back."""
    return find("ToolResult")(name, content, id=call_id, is_error=is_error)


def options(**values: Any) -> Any:
    """A parser's options."""
    return find("ParserOptions")(**values)


def plain(value: Any) -> Any:
    """A value of the package as JSON's, the order of its fields kept."""
    fields = getattr(value, "__struct_fields__", None)
    if fields is not None:
        return {"is": type(value).__name__, **{name: plain(getattr(value, name)) for name in fields}}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"is": type(value).__name__, **given}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if value is None or isinstance(value, str | int | float):
        return value
    raise DriverError(f"{type(value)} has no canonical form")


def text_of(value: Any) -> str:
    """A value as canonical text. Strings are themselves."""
    return value if isinstance(value, str) else json.dumps(plain(value), ensure_ascii=False)


RAISED = "raised "


def said(make: Callable[..., Any], *given: Any, **named: Any) -> str:
    """What `make` gives of these as text, or what it raises, which is behaviour as well."""
    try:
        value = make(*given, **named)
    except DriverError:
        raise
    except Exception as error:  # noqa: BLE001 - see above; how many there are is told
        return f"{RAISED}{type(error).__name__}: {error}"
    return text_of(value)
