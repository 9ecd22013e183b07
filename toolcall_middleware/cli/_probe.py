"""What a backend says of itself: which server it is, its models, how much text it takes."""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field
from typing import Any

from ..hosts.proxy.upstream.client import ask_json

_SECONDS = 5.0
"""For all questions together: the start of a proxy waits for them."""
_MOST_SHOWN = 3
# What each server writes as the owner of its models.
_OWNERS = {"vllm": "vLLM", "llamacpp": "llama.cpp", "sglang": "SGLang", "library": "Ollama"}


@dataclass(slots=True)
class Backend:
    """The facts found about a backend; those that it does not report are None or empty."""

    server: str | None = None
    models: list[str] = field(default_factory=list)
    context: dict[str, int] = field(default_factory=dict)
    """Tokens that prompt and answer may have together, by the model's name."""
    fault: str | None = None
    """Why it could not be asked."""


def look(url: str, key: str | None, *, seconds: float = _SECONDS) -> Backend:
    """Asks the backend at `url` (`/v1` included) for its models, and llama.cpp for its context.

    Never raises, and takes at most `seconds`: a backend that is not up yet is no reason not to start.
    """
    found = Backend(fault=f"no answer within {seconds:g} s")
    # In a thread, because looking up a name has no time limit of its own.
    asking = threading.Thread(target=_look, args=(url.rstrip("/"), key, seconds, found), daemon=True)
    asking.start()
    asking.join(seconds + 0.5)
    return found


def _look(url: str, key: str | None, seconds: float, found: Backend) -> None:
    try:
        listed = ask_json(f"{url}/models", key, seconds)
    except ValueError as error:  # SettingsError, too
        found.fault = str(error)
        return
    found.server = server_of(listed)
    for row in _rows(listed):
        name = row.get("id")
        if isinstance(name, str) and name.isprintable():
            found.models.append(name)
            # vLLM and SGLang; several gateways call it context_length.
            length = row.get("max_model_len") or row.get("context_length")
            if isinstance(length, int) and length > 0:
                found.context[name] = length
    found.fault = None if found.models else "it lists no models"
    if found.server == "llama.cpp" or (found.server is None and found.models and not found.context):
        with contextlib.suppress(ValueError):  # which other servers do not have
            match ask_json(f"{url.removesuffix('/v1')}/props", key, seconds):
                case {"default_generation_settings": {"n_ctx": int(length)}} if length > 0:
                    found.server = found.server or "llama.cpp"
                    found.context |= {model: found.context.get(model, length) for model in found.models}


def server_of(listed: Any) -> str | None:
    """Which server answers so to /models, by whom it names as the owner of its models; None where it names no owner."""
    owners = (str(row.get("owned_by")) for row in _rows(listed))
    return next((_OWNERS[owner] for owner in owners if owner in _OWNERS), None)


def models_in(listed: Any) -> list[str]:
    """The names in an answer to /models."""
    return [name for row in _rows(listed) if isinstance(name := row.get("id"), str) and name]


def _rows(listed: Any) -> list[dict[str, Any]]:
    rows = listed.get("data") if isinstance(listed, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def describe(url: str | None, api: str, backend: Backend | None) -> str:
    """One line on an upstream: its address, what it is, its models."""
    if api != "openai":
        name = {"anthropic": "Anthropic's Messages API", "google": "Google's generateContent"}.get(api, api)
        return f"{url}: {name}" if url else name
    if backend is None or url is None:
        return str(url)
    if not backend.models:
        return f"{url}: cannot say what it is ({backend.fault})"
    shown = []
    for model in backend.models[:_MOST_SHOWN]:
        context = backend.context.get(model)
        shown.append(f"{model} ({context:,} tokens)" if context else model)
    more = len(backend.models) - len(shown)
    return f"{url}: {backend.server or 'OpenAI-compatible'}, {', '.join(shown)}{f' and {more} more' if more else ''}"
