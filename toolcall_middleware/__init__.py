"""OpenAI-compatible tool calling for any chat-completions backend."""

from typing import TYPE_CHECKING, Any

from .errors import FormatError, SettingsError, ToolCallError
from .hosts.middleware.asgi import ToolCallMiddleware
from .settings import Settings

if TYPE_CHECKING:
    from .hosts.http.metrics_page import metrics_app
    from .hosts.proxy.app import create_proxy

__all__ = [
    "FormatError",
    "Settings",
    "SettingsError",
    "ToolCallError",
    "ToolCallMiddleware",
    "create_proxy",
    "metrics_app",
]
__version__ = "0.2.0"


def __getattr__(name: str) -> Any:
    # httpx is only needed by the proxy: the middleware must not pay for its import.
    if name == "create_proxy":
        from .hosts.proxy.app import create_proxy

        return create_proxy
    if name == "metrics_app":
        from .hosts.http.metrics_page import metrics_app

        return metrics_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
