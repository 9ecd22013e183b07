"""What a request may change for itself: the body's `toolcall` object and `request_options`."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import ToolCallError, kind, shown
from ..formats import registry
from ..settings import OPTIONS, Settings, show
from ..settings.settings import is_looser, of_request
from ..wire import openai
from ..wire.json_input import decode

# Each is compared with each tool and each call, and kept compiled.
_MOST_PATTERNS = 128
_LONGEST_PATTERN = 128


def read_overrides(toolcall: msgspec.Raw | None, options: msgspec.Raw | None, settings: Settings) -> dict[str, Any]:
    """The settings that the request changes, by name, with values as `Settings` holds them.

    `toolcall` and `options` are the body's fields `toolcall` and `request_options`. Raises ToolCallError
    `invalid_request` for an unknown name, a bad value, and for a value looser than the operator's.
    """
    changed: dict[str, Any] = {}
    for name, value in _object(toolcall, "toolcall").items():
        changed[name] = _read(name, value, settings)
    if changed.get("allowlist"):
        # A list that is given is meant to hold.
        changed.setdefault("allowlist_mode", "enforce")
    else:
        changed.pop("allowlist", None)
    wanted, param = _object(options, "request_options").get("validate_tool_arguments"), "validate_tool_arguments"
    if not isinstance(wanted, bool | None):
        message = f"'{param}' must be a boolean, got {kind(wanted)}."
        raise ToolCallError("invalid_request", message, param=f"request_options.{param}")
    if wanted and changed.get("validate_arguments", settings.validate_arguments) != "retry":
        changed["validate_arguments"] = "error"
    return changed


def without_overrides(body: bytes) -> bytes:
    """The body of a request that is not checked, without these fields; the very same bytes where it has none."""
    for name in ("toolcall", "request_options"):
        if name.encode() in body:
            body = openai.without_field(body, name)
    return body


def _object(raw: msgspec.Raw | None, field: str) -> dict[str, Any]:
    value = None if raw is None else decode(raw, field)
    if not isinstance(value, dict | None):
        raise ToolCallError("invalid_request", f"'{field}' must be an object, got {kind(value)}.", param=field)
    return value or {}


def _read(name: str, value: Any, settings: Settings) -> Any:
    param = f"toolcall.{name[:64]}"
    if not of_request(name):
        known = ", ".join(sorted(filter(of_request, OPTIONS)))
        raise ToolCallError("invalid_request", f"{shown(name)} cannot be set by a request; use {known}.", param=param)
    option = OPTIONS[name]
    try:
        read = option.read(value)
    except (ValueError, TypeError, KeyError):
        message = f"{param}: {shown(value)} is not allowed; use {option.allowed}."
        raise ToolCallError("invalid_request", message, param=param) from None
    if name == "allowlist" and (len(read) > _MOST_PATTERNS or max(map(len, read), default=0) > _LONGEST_PATTERN):
        message = f"{param} may hold {_MOST_PATTERNS} names or globs of {_LONGEST_PATTERN} characters."
        raise ToolCallError("invalid_request", message, param=param)
    if name == "format" and registry.is_place(read):
        # Importing a module runs it: only whoever operates this may say which.
        message = f"{param}: {shown(read)} names a module, which a request cannot do; use a format's name."
        raise ToolCallError("invalid_request", message, param=param)
    if name == "format" and read not in (formats := registry.names()):
        message = f"{param}: {shown(read)} is not a format; use {', '.join(formats)}."
        raise ToolCallError("invalid_request", message, param=param)
    if is_looser(name, read, settings):
        message = f"{param}: {show(read)} would loosen what is set here, {show(getattr(settings, name))}."
        raise ToolCallError("invalid_request", message, param=param)
    return read
