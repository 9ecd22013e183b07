"""`python -m tests.bench.tool_tokens [FOLDER …]`: how many tokens the tools of real agents take, by form and by format.

The bodies are those of `tests/clients_data` and of each folder. A body without tools, and one whose tools are those of
an earlier body, is left out. `--tokenizer` takes what the setting of that name does.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.families.prompted import BRIEF
from toolcall_middleware.formats.prompt.escaping import dump_spaced
from toolcall_middleware.formats.prompt.tools import declared
from toolcall_middleware.model import Tool
from toolcall_middleware.upstream.tool_budget import LIMITS, compact, find_tools, shortened
from toolcall_middleware.usage.tokenizers.vocabularies import load

from . import report

_CLIENTS = Path(__file__).parents[1] / "clients_data"
_FORMATS = ("json", "hermes", "llama3_json", "mistral_v11", "qwen3_coder", "harmony", "deepseek_v3", "pythonic")
_LEAST: Mapping[str, Any] = {"limit": LIMITS[-1]}
Form = Callable[[Sequence[Tool]], str]


def bodies(folders: Sequence[Path]) -> Iterator[tuple[str, list[Tool]]]:
    """(name, tools) of each body whose tools are new."""
    seen: set[str] = set()
    for path in sorted(path for folder in (_CLIENTS, *folders) for path in folder.glob("*.json")):
        tools = tools_of(json.loads(path.read_bytes()))
        key = repr(tools)
        if tools and key not in seen:
            seen.add(key)
            yield path.stem, tools


def tools_of(body: Mapping[str, Any]) -> list[Tool]:
    """The functions that a body of any API offers."""
    made = []
    for entry in body.get("tools") or ():
        function = entry.get("function", entry)
        schema = function.get("parameters") or function.get("input_schema")
        if isinstance(schema, dict):
            made.append(Tool(function["name"], function.get("description") or "", schema))
    return made


def _as_sent(tools: Sequence[Tool]) -> str:
    """The tools as their client sends them."""
    sent = ({"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools)
    return "\n".join(map(dump_spaced, sent))


def _shown(tools: Sequence[Tool], *, form: str = "json") -> str:
    """The block that the product writes."""
    return registry.get(form).render_tools(tools, parallel=True)


def _short(tools: Sequence[Tool], *, limit: int, form: str = "json") -> str:
    return _shown(shortened(tools, limit), form=form)


def _compact(tools: Sequence[Tool], *, form: str = "json") -> str:
    return _shown(compact(tools), form=form)


def _brief(tools: Sequence[Tool]) -> str:
    """The block with signatures."""
    return BRIEF.render_tools(tools, parallel=True)


def _types(tools: Sequence[Tool]) -> str:
    """TypeScript, with descriptions as comments."""
    return "\n\n".join(map(declared, tools))


_WAYS: Sequence[tuple[str, Callable[..., str], Mapping[str, Any]]] = (
    ("", _shown, {}),
    (", compact", _compact, {}),
    (", short", _short, _LEAST),
)
FORMS: Mapping[str, Form] = {
    "as sent": _as_sent,
    "json": _shown,
    "compact": _compact,
    **{f"≤ {limit}": functools.partial(_short, limit=limit) for limit in LIMITS},
    "signatures": _brief,
    "signatures ≤ 80": lambda tools: _brief(shortened(tools, LIMITS[-1])),
    "types": _types,
    "names, a line each": lambda tools: _shown([find_tools(tools)]),
}


def table(
    first: str, rows: Mapping[str, Sequence[Tool]], forms: Mapping[str, Form], count: Callable[[str], int]
) -> str:
    """A table of tokens."""
    lines = [f"| {first} | {' | '.join(forms)} |", f"|---|{'---:|' * len(forms)}"]
    for name, tools in rows.items():
        cells = (f"{count(form(tools)):,}" for form in forms.values())
        lines.append(f"| {name} ({len(tools)}) | {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = report.parser("tool_tokens", __doc__)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER", help="more bodies")
    parser.add_argument("--tokenizer", default="approximate", help="the setting of that name")
    given = parser.parse_args(arguments)
    count = load(given.tokenizer).count
    rows = dict(bodies(given.folders))
    print(table("tools of", rows, FORMS, count))
    forms: dict[str, Form] = {
        f"{name}{form}": functools.partial(write, form=name, **given_limit)
        for name in _FORMATS
        for form, write, given_limit in _WAYS
    }
    every = [tool for tools in rows.values() for tool in tools]
    print(f"\n| all {len(every)} tools | tokens |\n|---|---:|")
    for form, write in forms.items():
        print(f"| {form} | {count(write(every)):,} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
