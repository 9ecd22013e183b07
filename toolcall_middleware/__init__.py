"""OpenAI-compatible tool calling for any chat-completions backend."""

from typing import TYPE_CHECKING, Any

from .version import __version__ as __version__

if TYPE_CHECKING:
    from .errors import FormatError, SettingsError, ToolCallError
    from .hosts.http.metrics_page import metrics_app
    from .hosts.middleware.asgi import ToolCallMiddleware
    from .hosts.proxy.app import create_proxy
    from .settings import Settings

__all__ = [
    "FormatError",
    "Settings",
    "SettingsError",
    "ToolCallError",
    "ToolCallMiddleware",
    "create_proxy",
    "metrics_app",
]

# Each name is imported when it is first used: the middleware pays for no HTTP client, and `--version` for nothing.
_MODULES = {
    "FormatError": ".errors",
    "Settings": ".settings",
    "SettingsError": ".errors",
    "ToolCallError": ".errors",
    "ToolCallMiddleware": ".hosts.middleware.asgi",
    "create_proxy": ".hosts.proxy.app",
    "metrics_app": ".hosts.http.metrics_page",
}


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(module, __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
