"""`toolcall-middleware formats`: the formats with a sample call each."""

from __future__ import annotations

import argparse
import json

from ..model import ToolCall
from .command import Command

_SAMPLE = ToolCall("get_weather", '{"city": "Paris", "days": 2}')


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", metavar="NAME", nargs="*", help="only these formats")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _run(args: argparse.Namespace) -> int:
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
    return 0


COMMAND = Command(
    name="formats",
    help="list the formats, each with a sample call",
    configure=_configure,
    run=_run,
    examples=(
        "toolcall-middleware formats",
        "toolcall-middleware formats hermes",
    ),
    order=60,
)
