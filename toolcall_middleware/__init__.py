"""OpenAI-compatible tool calling for any chat-completions backend."""

from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .errors import FormatError, SettingsError, ToolCallError
    from .hosts.http.errors import metrics_app
    from .hosts.middleware.asgi import ToolCallMiddleware
    from .hosts.proxy.app import create_proxy
    from .library import CallReader, ReadAnswer, ReadCall, read_calls, render_calls, render_results, render_tools
    from .model import ToolCall, ToolResult
    from .parsing.events import CallArgs, CallEnd, CallStart, Malformed, Reasoning, Stop, Text, UnknownCall
    from .settings import Settings

# Each name is imported when it is first used: the middleware pays for no HTTP client, and `--version` for nothing.
_NAMES = {
    ".errors": ("FormatError", "SettingsError", "ToolCallError"),
    ".hosts.http.errors": ("metrics_app",),
    ".hosts.middleware.asgi": ("ToolCallMiddleware",),
    ".hosts.proxy.app": ("create_proxy",),
    ".library": (
        "CallReader", "ReadAnswer", "ReadCall", "read_calls", "render_calls", "render_results", "render_tools",
    ),
    ".model": ("ToolCall", "ToolResult"),
    ".parsing.events": (
        "CallArgs", "CallEnd", "CallStart", "Malformed", "Reasoning", "Stop", "Text", "UnknownCall",
    ),
    ".settings": ("Settings",),
}  # fmt: skip
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "CallArgs",
    "CallEnd",
    "CallReader",
    "CallStart",
    "FormatError",
    "Malformed",
    "ReadAnswer",
    "ReadCall",
    "Reasoning",
    "Settings",
    "SettingsError",
    "Stop",
    "Text",
    "ToolCall",
    "ToolCallError",
    "ToolCallMiddleware",
    "ToolResult",
    "UnknownCall",
    "create_proxy",
    "metrics_app",
    "read_calls",
    "render_calls",
    "render_results",
    "render_tools",
]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(module, __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
