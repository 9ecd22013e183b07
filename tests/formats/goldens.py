"""The golden cases: golden/<format>.jsonl, one case a line.

`id, source, format, text, tools` (null: any name may be called), `expected_tool_calls` (null: must only not raise; a
null name or arguments is not asserted), `expected_content` and `expected_reasoning` (null: empty; compared stripped),
`content_check` exact, prefix or skip, `args_check` exact, subset, partial, skip or valid_calls_only, `partial` (the
stream is still open), `kind`, `reasoning_in_text`, `tier`. And ours, all optional: in a call `arguments_text` (to the
character), `id`, `complete`, `repaired`; in a case `cut` (the model was cut off), `options` (of the parser),
`expected_stop` (the marker of somebody else's turn), `auto` (why `auto` reads it otherwise).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions, StreamParser, ToolFormat
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import Event, Stop

from ..parsing.streams import Call, calls_in, text_in, thought_in

FOLDER = Path(__file__).parent / "golden"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    id: str
    format: str
    text: str
    source: str
    tools: list[dict[str, Any]] | None = None
    expected_tool_calls: list[dict[str, Any]] | None
    expected_content: str | None = None
    expected_reasoning: str | None = None
    expected_stop: str | None = None
    content_check: str = "exact"
    args_check: str = "exact"
    partial: bool = False
    cut: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    kind: str = ""
    reasoning_in_text: bool = False
    tier: str = "core"
    auto: str = ""
    note: str = ""
    offered: ToolSet | None = field(init=False, repr=False)
    parser_options: ParserOptions = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Made once: a case is read a thousand times.
        object.__setattr__(self, "offered", _tool_set(self.tools))
        object.__setattr__(self, "parser_options", ParserOptions(**self.options))

    def reader(self, fmt: ToolFormat) -> StreamParser:
        """A fresh parser."""
        return fmt.parser(self.offered, self.parser_options)

    @property
    def ends_cut(self) -> bool:
        """Whether the model did not end the text by itself."""
        return self.cut or self.partial

    def check(self, events: list[Event]) -> None:
        """Assert that `events`, read whole, are what the case expects."""
        calls = calls_in(events)
        for call in calls:
            if call.complete:
                json.loads(call.arguments)
        if self.expected_tool_calls is not None and self.args_check != "valid_calls_only":
            names = [expected["name"] for expected in self.expected_tool_calls]
            found = [call.name if name is not None else None for call, name in zip(calls, names, strict=False)]
            assert found == names and len(calls) == len(names), f"calls: {calls}"  # noqa: PT018 - one comparison
            for call, expected in zip(calls, self.expected_tool_calls, strict=True):
                self._check_call(call, expected)
        content = text_in(events).strip()
        if self.content_check == "exact":
            assert content == (self.expected_content or "").strip()
        elif self.content_check == "prefix":
            assert content.startswith((self.expected_content or "").strip())
        if self.content_check != "skip" or self.expected_reasoning is not None:
            assert thought_in(events).strip() == (self.expected_reasoning or "").strip()
        stops = [event.marker for event in events if isinstance(event, Stop)]
        assert stops == ([] if self.expected_stop is None else [self.expected_stop])

    def _check_call(self, call: Call, expected: dict[str, Any]) -> None:
        for key, found in (("id", call.id), ("complete", call.complete), ("repaired", call.repaired)):
            if key in expected:
                assert found == expected[key], key
        if "arguments_text" in expected:
            assert call.arguments == expected["arguments_text"]
        arguments = expected["arguments"]
        if arguments is None or self.args_check in {"skip", "partial"}:
            return
        begun = isinstance(arguments, dict) and (arguments.get("__partial_raw__") or arguments.get("__raw__"))
        if self.partial and (begun or not call.complete):
            # The stream is still open: how far the arguments are is the reader's affair.
            wanted = re.sub(r"\s", "", begun or "")
            got = re.sub(r"\s", "", call.arguments)
            assert wanted.startswith(got) or got.startswith(wanted)
            return
        value = json.loads(call.arguments)
        if self.args_check == "subset":
            value = {key: item for key, item in value.items() if key in arguments}
        assert exact(value) == exact(arguments)


def exact(value: Any) -> str:
    """JSON with its types: 1 is not true, but 1.0 is 1, as in JSON. Keys in one order."""
    return json.dumps(_numbers(value), sort_keys=True)


def _numbers(value: Any) -> Any:
    match value:
        case dict():
            return {key: _numbers(item) for key, item in value.items()}
        case list():
            return [_numbers(item) for item in value]
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


def _tool_set(tools: list[dict[str, Any]] | None) -> ToolSet | None:
    if tools is None:
        return None
    functions = [tool["function"] for tool in tools]
    return ToolSet.of([Tool(f["name"], f.get("description", ""), f.get("parameters") or {}) for f in functions])


def load(name: str) -> list[Case]:
    """The cases of a format."""
    with (FOLDER / f"{name}.jsonl").open(encoding="utf-8") as lines:
        return [Case(**json.loads(line)) for line in lines if line.strip()]


def formats() -> list[str]:
    """The formats that need a golden file: all but `auto`, which reads every other's."""
    return [name for name in registry.names() if name != "auto"]
