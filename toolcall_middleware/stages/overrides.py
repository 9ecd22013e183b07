"""What a request may change for itself: the body's `toolcall` object and `request_options`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import ToolCallError
from ..formats import registry
from ..settings import OPTIONS, Settings, show
from .reading import decode, kind, shown

_FREE = frozenset({"mode", "format", "constrain", "reasoning", "reasoning_field", "prose", "messages", "system_role"})
"""These say how, not how much: every value is as safe as any other."""

_RANKS: Mapping[str, Mapping[Any, int]] = {
    "validate_arguments": {"off": 0, "warn": 1, "retry": 2, "error": 3},
    "stream_arguments": {True: 0, False: 1},
    "unknown_tool": {"forward": 0, "text": 1, "drop": 1, "error": 2},
    "malformed_arguments": {"repair": 0, "text": 1, "error": 2},
    "parallel": {"client": 0, "never": 1},
}
"""The higher, the stricter: a request may only go up from what the operator set."""

_LIMITS = frozenset(
    {
        "retries",
        "max_tools",
        "max_tool_name_length",
        "max_description_length",
        "max_schema_depth",
        "max_arguments_bytes",
        "max_tool_calls",
        "max_tool_rounds",
        "max_result_bytes",
        "max_response_bytes",
    }
)
"""A request may only go down."""


def read_overrides(toolcall: msgspec.Raw | None, options: msgspec.Raw | None, settings: Settings) -> dict[str, Any]:
    """The settings that the request changes, by name, with values as `Settings` holds them.

    `toolcall` and `options` are the body's fields `toolcall` and `request_options`. Raises ToolCallError
    `invalid_request` for an unknown name, a bad value, and for a value looser than the operator's.
    """
    changed: dict[str, Any] = {}
    for name, value in _object(toolcall, "toolcall").items():
        changed[name] = _read(name, value, settings)
    wanted, param = _object(options, "request_options").get("validate_tool_arguments"), "validate_tool_arguments"
    if not isinstance(wanted, bool | None):
        message = f"'{param}' must be a boolean, got {kind(wanted)}."
        raise ToolCallError("invalid_request", message, param=f"request_options.{param}")
    if wanted:
        changed["validate_arguments"] = "error"
    return changed


def _object(raw: msgspec.Raw | None, field: str) -> dict[str, Any]:
    value = None if raw is None else decode(raw, field)
    if not isinstance(value, dict | None):
        raise ToolCallError("invalid_request", f"'{field}' must be an object, got {kind(value)}.", param=field)
    return value or {}


def _read(name: str, value: Any, settings: Settings) -> Any:
    param = f"toolcall.{name[:64]}"
    if name not in _FREE and name not in _RANKS and name not in _LIMITS:
        known = ", ".join(sorted({*_FREE, *_RANKS, *_LIMITS}))
        raise ToolCallError("invalid_request", f"{shown(name)} cannot be set by a request; use {known}.", param=param)
    option = OPTIONS[name]
    try:
        read = option.read(value)
    except (ValueError, TypeError, KeyError):
        message = f"{param}: {shown(value)} is not allowed; use {option.allowed}."
        raise ToolCallError("invalid_request", message, param=param) from None
    if name == "format" and read not in (formats := registry.names()):
        message = f"{param}: {shown(read)} is not a format; use {', '.join(formats)}."
        raise ToolCallError("invalid_request", message, param=param)
    if _looser(name, read, getattr(settings, name)):
        message = f"{param}: {show(read)} would loosen what is set here, {show(getattr(settings, name))}."
        raise ToolCallError("invalid_request", message, param=param)
    return read


def _looser(name: str, value: Any, current: Any) -> bool:
    if name in _RANKS:
        return _RANKS[name][value] < _RANKS[name][current]
    if name in _LIMITS:
        return current is not None and (value is None or value > current)
    # A request that turns everything off would slip past the checks of the answer.
    return name == "mode" and value == "off"
