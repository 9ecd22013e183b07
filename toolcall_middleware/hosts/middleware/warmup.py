"""What the first request with tools would wait for, loaded while the server starts: the checks of JSON Schemas.

In a thread, and not before the server runs: importing the package and making the middleware stay quick, and a process
that forks its workers has not begun it yet.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading

from ...errors import ToolCallError
from ...exchange import Exchange, Request
from ...json_schema.validate_arguments import checker_for
from ...request.parse import ChatRequest, read_request
from ...settings import Settings
from ...upstream.backend_memory import BackendMemory

_TOOL = {"type": "function", "function": {"name": "warm_up", "parameters": {"type": "object", "properties": {}}}}
_REQUEST = json.dumps({"model": "m", "messages": [{"role": "user", "content": ""}], "tools": [_TOOL]}).encode()


@functools.lru_cache(maxsize=16)  # once a process for each settings
def warm(settings: Settings) -> threading.Thread:
    """Start it, once. The thread, which ends by itself."""
    thread = threading.Thread(target=_load, args=(settings,), name="toolcall-middleware warming", daemon=True)
    thread.start()
    return thread


def _load(settings: Settings) -> None:
    settings = settings.replace(allowlist_mode="off")  # nobody has asked for our tool: nothing is to be warned of
    with contextlib.suppress(ToolCallError):  # settings may refuse it: what they need is loaded by then
        Exchange(settings, BackendMemory()).receive(Request(_REQUEST))
        chat = read_request(_REQUEST, settings)
        if settings.validate_arguments != "off" and isinstance(chat, ChatRequest):
            checker_for(chat.tools_raw, chat.tools).faults("warm_up", "{}")
