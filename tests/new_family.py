"""`python -m tests.new_family NAME`: the skeleton of a new family's goldens, made by its own writer.

It writes tests/formats/golden/NAME.jsonl and says what is left to do. Every case is read once: one that does not come
back is not written but shown, because either the family's reader or its writer is wrong, or its syntax cannot say it.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from toolcall_middleware import FormatError
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ToolFormat
from toolcall_middleware.model import ToolCall

from .formats import goldens
from .formats.goldens import Case
from .parsing.streams import calls_in, read, text_in

Call = tuple[str, dict[str, Any]]

TOOLS: dict[str, dict[str, Any]] = {
    "get_weather": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "clock": {},
    "save": {
        "place": {"type": "object", "properties": {"name": {"type": "string"}, "at": {"type": "array"}}},
        "tags": {"type": "array", "items": {"type": "string"}},
        "keep": {"type": "boolean"},
    },
}
WEATHER: Call = ("get_weather", {"city": "Paris", "days": 2})
NESTED: Call = ("save", {"place": {"name": "x", "at": [1, 2.5]}, "tags": ["a", "b c"], "keep": True})
BEFORE, AFTER = "Let me look. ", " That is all."

NEXT = """\
{count} cases are in {path}.

Left to do:
1. Read them: `expected_*` says what must come out. Cases with a `note` are what the reader says today; check them.
2. Add what the family's real models write: outputs of their chat template, of other engines' tests, of bug reports,
   each with its `source`. At least {least} cases are needed; the fields are described in tests/formats/goldens.py.
3. python -m pytest tests/formats -k {name}
4. Names of its models with and without their maker, as engines have them, in tests/formats/test_models.py.
5. python -m tests.readme (the list of formats) and a line in CHANGELOG.md.{special}"""
SPECIAL = """
6. Its markers are special tokens (`special_tokens`): its name into SPECIAL in tests/formats/test_families.py."""
LEAST = 15  # as tests/formats/test_conformance.py has it


def texts(fmt: ToolFormat) -> Iterator[tuple[str, str, str, list[Call], str]]:
    """Kind, variant, text, calls and content of each case, as the family writes them."""

    def written(*calls: Call) -> str:
        made = [ToolCall(name, json.dumps(given, ensure_ascii=False), "call_1") for name, given in calls]
        return fmt.render_calls(made)

    single = written(WEATHER)
    yield "single", "single", single, [WEATHER], ""
    yield "parallel", "parallel", written(WEATHER, NESTED), [WEATHER, NESTED], ""
    yield "parallel", "same-tool-twice", written(WEATHER, WEATHER), [WEATHER, WEATHER], ""
    yield "text", "text-before", BEFORE + single, [WEATHER], BEFORE
    yield "text", "text-after", single + AFTER, [WEATHER], AFTER
    yield "text", "text-around", BEFORE + single + AFTER, [WEATHER], BEFORE + AFTER
    yield "text", "no-call", BEFORE, [], BEFORE
    yield "single", "no-arguments", written(("clock", {})), [("clock", {})], ""
    unicode: Call = ("get_weather", {"city": "東京🗼 „Zoë“", "days": 1})
    yield "unicode", "unicode", written(unicode), [unicode], ""
    quotes: Call = ("get_weather", {"city": 'a "quoted" <b>word</b>\n\tand \\ more', "days": 1})
    yield "unicode", "quotes-and-lines", written(quotes), [quotes], ""
    yield "nested", "nested", written(NESTED), [NESTED], ""


def cases(name: str, fmt: ToolFormat) -> Iterator[dict[str, Any]]:
    """All cases, as a golden file has them."""
    offered = [_tool(tool, properties) for tool, properties in TOOLS.items()]
    common = {"source": "own", "format": name, "tools": offered}
    for kind, variant, text, calls, content in texts(fmt):
        yield {
            "id": f"{name}-{variant}",
            **common,
            "kind": kind,
            "text": text,
            "expected_tool_calls": [{"name": tool, "arguments": arguments} for tool, arguments in calls],
            "expected_content": content or None,
        }
    single = fmt.render_calls([ToolCall(WEATHER[0], json.dumps(WEATHER[1]), "call_1")])
    for variant, share in (("cut-early", 0.3), ("cut-late", 0.8)):
        case: dict[str, Any] = {
            "id": f"{name}-{variant}",
            **common,
            "kind": "cut",
            "cut": True,
            "text": single[: int(len(single) * share)],
        }
        yield case | _as_read(fmt, Case(**case, expected_tool_calls=None))


def _as_read(fmt: ToolFormat, case: Case) -> dict[str, Any]:
    events = read(case.reader(fmt), [case.text], cut=True)
    found = [{"name": call.name, "arguments": None, "complete": call.complete} for call in calls_in(events)]
    content = text_in(events) or None
    return {
        "expected_tool_calls": found,
        "expected_content": content,
        "args_check": "skip",
        "note": "as it is read now",
    }


def _tool(name: str, properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "description": "", "parameters": parameters}}


def _fault(fmt: ToolFormat, row: dict[str, Any]) -> str | None:
    case = Case(**row)
    try:
        case.check(read(case.reader(fmt), [case.text], cut=case.ends_cut))
    except AssertionError as error:
        return str(error) or "the call does not come back as it was"
    return None


def write(name: str, path: Path) -> int:
    """Write the file; returns how many cases are in it. Raises FormatError, and FileExistsError if there is one."""
    fmt = registry.get(name)
    kept: list[str] = []
    for row in cases(name, fmt):
        fault = _fault(fmt, row)
        if fault is None:
            kept.append(json.dumps(row, ensure_ascii=False))
        else:
            print(f"left out {row['id']}: {row['text']!r}\n    {fault}")
    with path.open("x", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in kept)
    return len(kept)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.new_family", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name", help="the format's name, as toolcall_middleware/formats/families/ declares it")
    name = parser.parse_args(arguments).name
    path = goldens.FOLDER / f"{name}.jsonl"
    try:
        count = write(name, path)
    except (FormatError, FileExistsError) as error:
        print(error, file=sys.stderr)
        return 2
    special = SPECIAL if getattr(registry.get(name), "special_tokens", False) else ""
    print(NEXT.format(count=count, path=path, least=LEAST, name=name, special=special))
    return 0


if __name__ == "__main__":
    sys.exit(main())
