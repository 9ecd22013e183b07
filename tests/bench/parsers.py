"""The time of other ways to read a call that streams, and of the engines' own parsers, against ours.

Text in, pieces of arguments out; the same pieces of four characters for all, the syntax's markers whole, as models
write them. Each parser reads the syntax that it is made for, and is compared with ours of that syntax.
"""

from __future__ import annotations

import json
from typing import Any

from . import material, measure
from .published import MARKERS, readers
from .readers import AT_THE_END, PARSED_AGAIN, Reader, Tools, ours
from .report import Table

TOOLS: Tools = [material.write_file_tool()]


def written(syntax: str, name: str, arguments: dict[str, Any]) -> str:
    """A call as the chat template of the models that write it does."""
    if syntax == "hermes":
        call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
        return f"<tool_call>\n{call}\n</tool_call>"
    texts = {key: v if isinstance(v, str) else json.dumps(v, ensure_ascii=False) for key, v in arguments.items()}
    parameters = "".join(f"<parameter={key}>\n{text}\n</parameter>\n" for key, text in texts.items())
    return f"<tool_call>\n<function={name}>\n{parameters}</function>\n</tool_call>"


def run(*, smoke: bool) -> Table:
    repeats = 1 if smoke else 5
    table = Table("Parsers: a call, 4 characters a chunk", ("ns a chunk", "x ours"))
    published = readers()
    for size in (300,) if smoke else (1_000, 4_000, 16_000):
        arguments = json.loads(material.file_arguments(size))
        for syntax in ("hermes", "qwen3_coder"):
            pieces = material.cut(written(syntax, material.TOOL, arguments), whole=MARKERS)
            base = ours(syntax, syntax)
            others = [ours("auto", syntax)]
            others += [PARSED_AGAIN, AT_THE_END] if syntax == "hermes" else []
            others += [reader for reader in published if reader.syntax == syntax]
            for reader in (base, *others):
                _check(reader, pieces, arguments)
            reads = [base.begin(pieces, TOOLS), *(reader.begin(pieces, TOOLS) for reader in others)]
            quick = min(measure.best([measure.timed(reads[0])], 4 * repeats))
            table.add(f"{size} characters, {base.name}", f"{quick / len(pieces) * 1e9:.0f}", "1.0")
            for reader, read in zip(others, reads[1:], strict=True):
                seconds = min(measure.timed(read)() for _ in range(repeats if size < 10_000 else 2))
                goal = ">= 20" if size == 4_000 and reader.again else ""
                figure = f"{seconds / len(pieces) * 1e9:.0f}"
                table.add(f"{size} characters, {reader.name}", figure, f"{seconds / quick:.1f}", goal)
    return table


def _check(reader: Reader, pieces: list[str], arguments: dict[str, Any]) -> None:
    calls = reader.merge(reader.begin(pieces, TOOLS)()).calls
    if [(name, json.loads(text)) for name, text in calls] != [(material.TOOL, arguments)]:
        raise AssertionError(f"{reader.name} does not read the call: {calls}")
