"""Work grows with the text and no faster, whatever is repeated after whatever beginning of a call.

Input that is held and read again from its start costs the square of its length: each format, after each beginning of a
call as it writes one, gets the same character again and again in pieces of four.
"""

from __future__ import annotations

import json
import re

import pytest

from tests.helpers.thorough import THOROUGH
from tests.parsing.meter import Meter
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolCall, ToolSet

FILLERS = "a1 \n\"'\\<>{}[](),:=/|-._#*`é"
PARAMETERS = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "days": {"type": "integer"},
        "list": {"type": "array"},
        "mode": {"enum": ["a", "b"]},
    },
}
TOOLS = ToolSet.of([Tool("find", parameters=PARAMETERS)])
CALL = ToolCall("find", json.dumps({"text": "it is", "days": 3, "list": [1, "a", {"k": None}], "mode": "a"}))
SIZE = 3_000
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")


def beginnings(name: str) -> list[str]:
    """A call as the format writes it, up to the end of each of its words and signs."""
    text = registry.get(name).render_calls([CALL])
    return [text[: token.end()] for token in _TOKEN.finditer(text)]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", registry.names())
def test_work_grows_with_the_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = Meter()

    def work(begin: str, filler: str, size: int) -> int:
        reader = registry.get(name).parser(TOOLS, ParserOptions())
        reader.feed(begin)
        meter.cost = 0
        for _ in range(size // 4):
            reader.feed(meter.text(filler * 4))
        reader.finish()
        return meter.cost

    meter.watch_all(monkeypatch)
    found = beginnings(name)
    steps = range(len(found)) if THOROUGH else range(len(name) % 5, len(found), 5)
    for at in steps:
        for filler in FILLERS if THOROUGH else FILLERS[at % 9 :: 9]:
            small, large = (work(found[at], filler, size) for size in (SIZE, 2 * SIZE))
            assert large <= 2.3 * small + 4 * SIZE, f"{filler!r} after {found[at]!r}: {small} and {large}"
