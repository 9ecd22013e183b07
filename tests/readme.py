"""The README's table and the pages of docs/reference, from the code. `python -m tests.readme` writes them anew;
test_readme.py checks that they are true.
"""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import toolcall_middleware
from toolcall_middleware import errors
from toolcall_middleware.cli import dispatch as cli
from toolcall_middleware.cli.launch.agents import AGENTS
from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall
from toolcall_middleware.settings import OPTIONS, PROFILES, show

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


TEN = (
    "mode",
    "format",
    "profile",
    "constrain",
    "messages",
    "validate_arguments",
    "stream_arguments",
    "allowlist",
    "rate_limit",
    "api_keys",
)
"""The settings of the README."""


def ten() -> str:
    """The README's table: what most people ever set."""
    return _table(_SETTING, [_row(name) for name in TEN])


def settings() -> str:
    """All settings, a table for each room, in the order of the code; and what the profiles set."""
    parts = [
        "# Settings",
        (
            "A variable `TOOLCALL_<NAME>`, a keyword of `ToolCallMiddleware(app, name=value)` or of `Settings`, or"
            " `serve --set name=value`. An unknown name or a bad value is an error at start that says what is allowed."
        ),
    ]
    for room, title in ROOMS.items():
        rows = [_anchored(_row(name)) for name, option in OPTIONS.items() if option.room == room]
        parts += [f"## {title}", _table(_SETTING, rows)]
    parts += ["## Profiles", "A profile sets several settings at once; what is set by hand wins.", profiles()]
    return "\n\n".join(parts)


def profiles() -> str:
    """What each profile sets."""
    rows = []
    for profile, values in PROFILES.items():
        pairs = [f"`{name}={show(value)}`" for name, value in values.items()]
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
    about = (
        "`auto` reads whichever of them the model writes. Its prompt is in the model family's own format where the"
        " model's name tells the family, else in `json`, which models follow best that were not trained on another."
        " A newer version than all that are known (`deepseek-v5`) is written to as the newest that is known, which the"
        " log says."
        " Another package can add a format by an entry point in the group `toolcall_middleware.formats`."
    )
    return "\n\n".join(["# Formats", about, _table(("format", "what it is", "a call in it (in one line here)"), rows)])


def models_page() -> str:
    """How `auto` asks each model, and how much of the format is tested."""
    globs: dict[str, list[str]] = {}
    for glob, name in registry.table():
        globs.setdefault(name, []).append(glob)
    rows = []
    for name in built_in():
        if name == "auto":
            continue
        special = "yes" if getattr(registry.get(name), "special_tokens", False) else ""
        golden = ROOT / "tests" / "formats" / "golden" / f"{name}.jsonl"
        answers = str(len(golden.read_text("utf-8").splitlines())) if golden.is_file() else ""
        rows.append((", ".join(f"`{glob}`" for glob in globs.get(name, ())), f"`{name}`", special, answers))
    about = (
        "How `format=auto` asks a model, by its name. Globs match parts of the name; the size, the date and the"
        " quantisation after them are free. A model that is not here is asked in `json`."
        " Whether a backend's own tool calls are used does not depend on the name: `mode=auto` uses them where the"
        " backend proves that they work, and `mode=prompt` never does."
        " *Special tokens*: the markers are tokens that a server leaves out of its text unless it is asked to keep"
        " them, which the middleware does."
        " *Answers*: recorded, published and written test cases that the format's reader passes, cut at every place."
        " How well small models call: [Figures](../figures.md)."
    )
    head = ("model names", "format", "special tokens", "answers")
    return "\n\n".join(["# Models", about, _table(head, [row for row in rows if row[0]])])


def reasoning() -> str:
    """What each family reads again of its reasoning, and which templates open it, with the sources."""
    returned, opened, unopened = [], [], []
    for name in built_in():
        found = registry.thoughts_of_format(registry.get(name))
        if found.source:
            sample = found.written("…").replace("\n", " ").strip()
            returned.append((f"`{name}`", found.returned.value, f"`` {sample} ``", found.source))
        returned += [(f"`{name}`: `{glob}`", wants.value, "", source) for glob, (wants, source) in found.other.items()]
        opened += [(f"`{glob}`", f"`{name}`", source) for glob, source in found.opened.items()]
        unopened += [(f"`{glob}`", f"`{name}`", source) for glob, source in found.unopened.items()]
    parts = [
        "# Reasoning by family",
        (
            "How it is read, and when a call in it is one: [Reasoning](../explanation/reasoning.md). Globs match"
            " parts of a model's name. Sources: `[llama.cpp]` is a file of its `models/templates`,"
            " `[card]` the model's card or chat template on huggingface.co, `[sglang]` a page of its documentation."
        ),
        "## What of earlier turns is read again",
        "Families that are not here read nothing of it again.",
        _table(("format: models", "turns", "as it is written", "source"), returned),
        "## Whose chat template opens it",
        "`reasoning_start=auto` takes answers of these to begin in a thought.",
        _table(("models", "format", "source"), opened),
        "But not of these:",
        _table(("models", "format", "source"), unopened),
    ]
    return "\n\n".join(parts)


def built_in() -> list[str]:
    """The names of the formats that the package brings."""
    return [name for name in registry.names() if type(registry.get(name)).__module__.startswith("toolcall_middleware.")]


WHAT_TO_DO = {
    "invalid_json": "send one JSON object as the body",
    "invalid_request": "correct the field that `param` names",
    "invalid_tool_schema": "correct the tool that `param` names: a unique name, and `parameters` of `type: object`",
    "invalid_tool_choice": "name a tool of `tools`, or send `auto`",
    "invalid_tool_call_id": "give the result the `id` of the call that it answers, and send that call with it",
    "invalid_message_order": "put each result right after the message with its call",
    "tool_schema_incompatible": "leave out the `incompatible_features`, or choose another upstream",
    "too_many_tools": "offer fewer tools, or raise `max_tools`",
    "tool_not_allowed": "leave the tool out, or add its name to `allowlist`",
    "model_not_found": "choose a model of `GET /v1/models`, or add an upstream for it",
    "limit_exceeded": "stay below the limit that the message names, or raise it",
    "request_too_large": "send less, or raise `max_request_bytes`",
    "request_timeout": "send the body faster, or raise `upload_timeout`",
    "rate_limit_exceeded": "wait for the seconds of `retry-after`",
    "rate_limit_unavailable": "try again later; start the storage of `rate_limit_storage`",
    "unknown_tool_call": "ask again; `unknown_tool=text` gives the call as text instead",
    "malformed_tool_arguments": "ask again; `validate_arguments=retry` does so by itself, `malformed_arguments=repair` "
    "gives the call as text instead",
    "invalid_tool_arguments": "ask again, with more `retries` or a simpler schema; where the tool is not `strict`, "
    "`validate_arguments=warn` lets the call pass",
    "tool_choice_not_satisfied": "ask again, with `auto` or more `max_tokens`; "
    "[why no call came](../how-to/no-calls.md)",
    "upstream_error": "look at the log's WARNING with the backend's words; try again where the backend was down",
    "upstream_timeout": "try again; raise `upstream_timeout` for slow prompts",
    "invalid_api_key": "send one of `api_keys` as `authorization: Bearer KEY` or `x-api-key: KEY`",
    "host_not_allowed": "add the host to `allowed_hosts`, or the origin to `cors_origins`",
    "unknown_url": "correct the path, or add it to `forward_paths`",
    "websocket_not_supported": "send HTTP requests; answers stream with `stream: true`",
    "method_not_allowed": "use `GET`",
    "loop_detected": "correct `upstream_url`: it must be the backend's address, not the proxy's",
}
"""What a client or an operator can do about each code."""


def error_codes() -> str:
    """Every code with its status, from the code's own table, and what to do about it."""
    rows = [_anchored((f"`{code}`", str(row.status), row.when, WHAT_TO_DO[code])) for code, row in errors.CODES.items()]
    about = (
        'Errors have OpenAI\'s form, `{"error": {"message", "type", "param", "code"}}`, where `param` is a path such as'
        " `tools[1].function.parameters`. The backend's own errors keep their status and text and get the same form."
        ' Once a stream has begun, an error is one event `data: {"error": …}` and then `[DONE]`. Answers with status'
        " 422 carry `x-should-retry: false`: the OpenAI SDKs then do not repeat the request."
    )
    return "\n\n".join(["# Errors", about, _table(("code", "status", "when", "what to do"), rows)])


def command_line() -> str:
    """Each command with its arguments, examples and exit codes, whichever Python prints the help."""
    parser = cli.build_parser()
    parts = ["# Command line", "`toolcall-middleware COMMAND --help` prints the same."]
    for command in cli.commands().values():
        one = argparse.ArgumentParser(add_help=False)
        command.configure(one)
        rows = []
        for action in one._actions:
            if action.help == argparse.SUPPRESS:
                continue
            what = action.help or (f"one of {', '.join(action.choices)}" if action.choices else "")
            given = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
            name = " ".join(filter(None, (", ".join(action.option_strings), str(given))))
            rows.append((f"`{name}`", what % {"default": action.default}))
        codes = command.epilog().partition("exit codes: ")[2].replace("\n  ", " ")
        text = (command.description or f"{command.help[0].upper()}{command.help[1:]}.").strip()
        examples = "\n".join(command.examples)
        parts += [f"## {command.name}", text, _table(("argument", "what it does"), rows)]
        parts += [f"```sh\n{examples}\n```", f"Exit codes: {codes}."]
    assert parser.prog == "toolcall-middleware"
    return "\n\n".join(parts)


def python_api() -> str:
    """The public names with their docstrings."""
    parts = ["# Python API", "All of it is in the package `toolcall_middleware`."]
    for name in sorted(toolcall_middleware.__all__):
        value = getattr(toolcall_middleware, name)
        kind = "class " if inspect.isclass(value) else ""
        parts += [f"## {name}", f"```python\n{kind}{name}{_signature(value)}\n```", inspect.getdoc(value) or ""]
        for key, method in vars(value).items() if inspect.isclass(value) else ():
            if not key.startswith("_") and callable(getattr(value, key)) and method.__doc__:
                bound = getattr(value, key)
                parts += [f"### `{name}.{key}{_signature(bound)}`", inspect.getdoc(bound) or ""]
    return "\n\n".join(parts)


def _signature(value: Any) -> str:
    """How it is called, as the source writes it. Exceptions that add nothing have none worth showing."""
    if inspect.isclass(value):
        if "__init__" not in vars(value):
            return ""
        value = value.__init__
    shown = re.sub(r"^\(self(, )?", "(", str(inspect.signature(value))).replace("'", "")
    return shown.removesuffix(" -> None")


def commands() -> set[str]:
    """The command line's commands."""
    return set(cli.commands())


REFERENCE: dict[str, Callable[[], str]] = {
    "settings": settings,
    "formats": formats,
    "models": models_page,
    "reasoning": reasoning,
    "errors": error_codes,
    "cli": command_line,
    "api": python_api,
}
"""The generated pages, by name."""
_NOTE = "<!-- written by `python -m tests.readme` -->\n\n"


def page(name: str) -> str:
    """A generated page's whole text."""
    return f"{_NOTE}{REFERENCE[name]().rstrip()}\n"


def page_path(name: str) -> Path:
    """Where it stands."""
    return ROOT / "docs" / "reference" / f"{name}.md"


def agents() -> str:
    """A line for each agent."""
    start = "toolcall-middleware launch {} --upstream http://127.0.0.1:8000/v1"
    return "\n".join(["```sh", *map(start.format, AGENTS), start.format("env") + " -- python my_agent.py", "```"])


PARTS: dict[str, Callable[[], str]] = {"agents": agents, "settings": ten}
"""The generated parts of the README."""


def rendered(text: str) -> str:
    """The README's text with its generated parts made anew."""
    for name, make in PARTS.items():
        pattern = rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- /{name} -->)"
        begin, *more = re.split(pattern, text, flags=re.DOTALL)
        if len(more) != 3:
            raise ValueError(f"the README has {len(more) // 3} parts named {name}")
        text = f"{begin}{more[0]}\n{make()}\n\n{more[1]}{more[2]}"
    return text


_SETTING = ("setting", "default", "values", "what it does")


def _row(name: str) -> tuple[str, ...]:
    option = OPTIONS[name]
    return f"`{name}`", f"`{_default(name)}`", option.allowed, option.help


def _anchored(row: tuple[str, ...]) -> tuple[str, ...]:
    """The row with an anchor of its first cell's name, so that `settings.md#mode` leads to it."""
    name = row[0].strip("`")
    return f'<a id="{name}"></a>{row[0]}', *row[1:]


_MIB = 1 << 20


def _default(name: str) -> str:
    value = OPTIONS[name].default
    if name.endswith("_bytes") and isinstance(value, int) and value % _MIB == 0:
        return f"{value // _MIB} MiB"
    return show(value)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


if __name__ == "__main__":
    README.write_text(rendered(README.read_text(encoding="utf-8")), encoding="utf-8")
    for each in REFERENCE:
        page_path(each).parent.mkdir(parents=True, exist_ok=True)
        page_path(each).write_text(page(each), encoding="utf-8")
