"""The README's generated parts. `python -m tests.readme` writes them anew; test_readme.py checks that they are true."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.driven import Driven
from toolcall_middleware import Settings, SettingsError, ToolCallMiddleware, create_proxy, errors
from toolcall_middleware.cli import dispatch as cli
from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall
from toolcall_middleware.settings import OPTIONS, PROFILES, show
from toolcall_middleware.upstream.backend_memory import BackendMemory

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"

ROOMS = {
    "prompt": "What is sent to the backend",
    "parsing": "What is made of the answer",
    "usage": "Token counts",
    "guard": "Limits",
    "strict": "The strict dialect",
    "proxy": "The proxy",
    "see": "Metrics and traces",
}

ERRORS = {
    "invalid_json": "the body is not JSON, or no object",
    "invalid_request": "a field has a wrong type or value",
    "invalid_tool_schema": "parameters are no JSON Schema of an object, or cannot be checked; bad or double names",
    "invalid_tool_choice": "it names a tool that is not offered, or asks for one where none is",
    "invalid_tool_call_id": "a tool message answers no earlier call",
    "invalid_message_order": "a tool message stands where it cannot",
    "tool_schema_incompatible": "the upstream's API cannot express a tool's schema",
    "too_many_tools": "more than `max_tools`",
    "tool_not_allowed": "a tool is not in the allowlist",
    "model_not_found": "no upstream of `upstreams_file` serves the request's model",
    "limit_exceeded": "one of the other limits",
    "request_too_large": "more than `max_request_bytes`",
    "request_timeout": "the request's body does not come within `upload_timeout`",
    "rate_limit_exceeded": "too many tool calls in a time",
    "rate_limit_unavailable": "the rates' storage is down, under `rate_limit_failure=closed`",
    "unknown_tool_call": "the model called what is not offered, under `unknown_tool=error`",
    "malformed_tool_arguments": "arguments are not JSON, under `malformed_arguments=error`",
    "invalid_tool_arguments": "arguments do not fit the tool's schema",
    "tool_choice_not_satisfied": "a call had to come, and after all tries none did",
    "upstream_error": "the backend is down, breaks off, or answers with something else than a completion",
    "upstream_timeout": "the upstream is silent for `upstream_timeout`",
    "invalid_api_key": "the proxy has `api_keys` and the client showed none of them",
}


def settings() -> str:
    """A table for each room, in the order of the code."""
    parts = []
    idle = unused_options()
    for room, title in ROOMS.items():
        rows = [
            (f"`{name}`", f"`{_default(name)}`", option.allowed, option.help + (" *Not yet.*" if name in idle else ""))
            for name, option in OPTIONS.items()
            if option.room == room
        ]
        parts.append(f"**{title}**\n\n{_table(('setting', 'default', 'values', 'what it does'), rows)}")
    return "\n\n".join(parts)


def profiles() -> str:
    """What each profile sets."""
    idle = unused_options()
    rows = []
    for profile, values in PROFILES.items():
        pairs = [f"`{name}={show(value)}`" + (" (not yet)" if name in idle else "") for name, value in values.items()]
        rows.append((f"`{profile}`", ", ".join(pairs) or "nothing: whatever real clients send is accepted"))
    return _table(("profile", "sets"), rows)


def formats() -> str:
    """The built-in formats with a sample call."""
    call = ToolCall("f", '{"x": 1}')
    rows = []
    for name in built_in():
        fmt = registry.get(name)
        what = getattr(fmt, "about", None) or (inspect.getdoc(fmt) or "").partition("\n")[0]
        sample = fmt.render_calls([call]).strip().replace("\n", " ")
        rows.append((f"`{name}`", what, f"`` {sample} ``"))
    return _table(("format", "what it is", "a call in it (in one line here)"), rows)


def built_in() -> list[str]:
    """The names of the formats that the package brings."""
    return [name for name in registry.names() if type(registry.get(name)).__module__.startswith("toolcall_middleware.")]


def error_codes() -> str:
    """Every code with its status, from the code's own table."""
    strings = _strings(skip={"errors.py"})
    rows = [
        (f"`{code}`", str(status), ERRORS[code] + ("" if code in strings else " *(not yet)*"))
        for code, status in errors._STATUS.items()  # the one table there is
    ]
    return _table(("code", "status", "when"), rows)


def limits() -> str:
    """What is named in the contract but does not work, found by trying it."""
    lines = []
    modes = [name for name in ("native", "auto") if refuses("mode", name)]
    if modes:
        lines.append(
            f"Refused at start: {_and(f'`mode={name}`' for name in modes)}. Every request is served by prompt."
        )
    idle = unused_options()
    asks = {value: _constrained(value) for value in OPTIONS["constrain"].allowed.split(", ")}
    nothing = [value for value, fields in asks.items() if not fields and value not in {"off", "auto"}]
    if nothing:
        lines.append(f"Accepted but without effect: {_and(f'`constrain={value}`' for value in nothing)}.")
    apis = [name for name in ("anthropic", "google") if proxy_refuses("upstream_api", name)]
    if apis:
        lines.append(f"The proxy speaks to OpenAI-compatible upstreams only, not yet to {_and(apis, 'or')}.")
    missing = [name for name in ("check", "replay") if name not in commands()]
    if missing:
        lines.append(f"There is no command {_and((f'`{name}`' for name in missing), 'or')} yet.")
    refused = [name for name in idle if refuses(name)]
    if refused:
        lines.append(f"Not there yet, and refused at start: {_and(f'`{name}`' for name in refused)}.")
    if idle := [name for name in idle if name not in refused]:
        lines.append(f"Accepted, but these settings **do nothing yet**: {_and(f'`{name}`' for name in idle)}.")
    return "\n".join(textwrap.fill(line, 120, initial_indent="- ", subsequent_indent="  ") for line in lines)


def _and(words: Iterable[str], last: str = "and") -> str:
    *most, end = words
    return f"{', '.join(most)} {last} {end}" if most else end


def commands() -> set[str]:
    """The command line's commands."""
    return set(cli.commands())


def proxy_refuses(name: str, value: str) -> bool:
    """Whether the proxy refuses to start with this setting."""
    before = dict(os.environ)
    try:
        os.environ.update({"TOOLCALL_UPSTREAM_URL": "http://127.0.0.1:9/v1", f"TOOLCALL_{name.upper()}": value})
        create_proxy()
    except SettingsError:
        return True
    finally:
        os.environ.clear()
        os.environ.update(before)
    return False


def _constrained(value: str) -> set[str]:
    """The fields that a call which must come adds to the request, under this value of `constrain`."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [tool], "tool_choice": "required"}
    sent = Driven(Settings(constrain=value, format="json"), BackendMemory()).on_request(json.dumps(body).encode())
    return set(json.loads(sent or b"{}")) - {"model", "messages"}


def refuses(name: str, *values: str) -> bool:
    """Whether the middleware refuses to start with this value, or with any other than the default."""
    option = OPTIONS[name]
    for text in values or ("true", *option.allowed.split(", "), "tiktoken:x", "60/minute", "x"):
        try:
            value = option.read(text)
        except (ValueError, TypeError):
            continue
        if value == option.default:
            continue
        try:
            ToolCallMiddleware(_no_app, **{name: value})
        except SettingsError:
            return True
        return False
    raise ValueError(f"no value of {name} is known but its default")


async def _no_app(_scope: Any, _receive: Any, _send: Any) -> None:
    raise AssertionError("nobody calls it")


def unused_options() -> list[str]:
    """Options whose name occurs nowhere in the package but where options are read."""
    used = _strings(skip={"settings/options.py", "settings/settings.py", "request/overrides.py"})
    return [name for name in OPTIONS if name not in used]


PARTS: dict[str, Callable[[], str]] = {
    "settings": settings,
    "profiles": profiles,
    "formats": formats,
    "errors": error_codes,
    "limits": limits,
}


def rendered(text: str) -> str:
    """The README's text with all generated parts made anew."""
    for name, make in PARTS.items():
        pattern = rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- /{name} -->)"
        body = make()
        # Inside a list no blank line may come between.
        inner = f"{body}\n" if name == "limits" and body else f"\n{body}\n\n" if body else ""
        found = re.findall(pattern, text, re.DOTALL)
        if len(found) != 1:
            raise ValueError(f"the README has {len(found)} parts named {name}")
        before, after = found[0]
        start = text.index(before) + len(before)
        text = text[:start] + inner + text[text.index(after, start) :]
    return text


_MIB = 1 << 20


def _default(name: str) -> str:
    value = OPTIONS[name].default
    if name.endswith("_bytes") and isinstance(value, int) and value % _MIB == 0:
        return f"{value // _MIB} MiB"
    return show(value)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _strings(*, skip: set[str]) -> set[str]:
    """All attribute names that are read and all string constants in the package, docstrings and `skip` left out."""
    found: set[str] = set()
    package = ROOT / "toolcall_middleware"
    for path in sorted(package.rglob("*.py")):
        if path.relative_to(package).as_posix() in skip:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(attr=name, ctx=ast.Load()):
                    found.add(name)
                case ast.Constant(value=str(text)):
                    found.add(text)
    return found


if __name__ == "__main__":
    README.write_text(rendered(README.read_text(encoding="utf-8")), encoding="utf-8")
