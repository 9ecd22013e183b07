"""`toolcall-middleware formats`: the formats with a sample call each, and what the other APIs can do."""

from __future__ import annotations

import argparse
import json

from ..model import ToolCall
from .command import Command, UsageError

_SAMPLE = ToolCall("get_weather", '{"city": "Paris", "days": 2}')


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these formats")
    parser.add_argument("--providers", action="store_true", help="only the other APIs")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _run(args: argparse.Namespace) -> int:
    if args.providers:
        if args.names:
            raise UsageError("--providers: names of formats have no place beside it.")
        return _providers(as_json=args.json)
    from ..formats import registry

    rows: list[dict[str, str]] = []
    for name in args.names or registry.names():
        fmt = registry.get(name)
        module = type(fmt).__module__
        source = "built in" if module.startswith("toolcall_middleware.") else module
        rows.append({"name": name, "source": source, "sample": fmt.render_calls([_SAMPLE])})
    if args.json:
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return 0
    for row in rows:
        print(f"{row['name']} ({row['source']})")
        print("\n".join(f"    {line}" for line in row["sample"].strip("\n").split("\n")))
        print()
    return 0 if args.names else _providers(as_json=False)


def _providers(*, as_json: bool) -> int:
    """What of OpenAI's API each `upstream_api` can do."""
    from ..hosts.proxy.upstream.providers import PROVIDERS

    tables = {name: provider.capabilities for name, provider in sorted(PROVIDERS.items())}
    if as_json:
        listed = {
            name: {feature: {"support": row.support.value, "note": row.note} for feature, row in table.items()}
            for name, table in tables.items()
        }
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return 0
    for name, table in tables.items():
        print(f"upstream_api={name}")
        width, how = max(map(len, table)), max(len(row.support.value) for row in table.values())
        for feature, row in table.items():
            print(f"    {feature:{width}}  {row.support.value:{how}}  {row.note}".rstrip())
        print()
    return 0


COMMAND = Command(
    name="formats",
    help="list the formats, each with a sample call, and what the other APIs behind the proxy can do",
    configure=_configure,
    run=_run,
    examples=(
        "toolcall-middleware formats",
        "toolcall-middleware formats hermes",
        "toolcall-middleware formats --providers       # what Anthropic's and Google's APIs can do",
    ),
    order=60,
)
