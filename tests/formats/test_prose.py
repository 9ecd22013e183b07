"""Ordinary answers never become calls, whichever format reads them: prose/*.md, texts separated by lines of `§§§`.

Tools are offered whose names occur in the texts. Markers stand in them as examples, as words, and half.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.thorough import THOROUGH
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet

from ..parsing.streams import calls_in, random_cuts, read, shown_in

FOLDER = Path(__file__).parent / "prose"
KINDS = sorted(path.stem for path in FOLDER.glob("*.md"))
NAMES = [
    "search", "get_weather", "read_file", "run", "print", "echo", "add", "main", "fetch", "test", "query", "map",
    "filter", "open", "deploy", "name", "tool", "json", "function", "call", "f", "g", "x", "Alice", "Paris",
    "Search", "sum", "list", "find", "reduce", "let", "not", "all", "is", "text",
]  # fmt: skip
TOOLS = ToolSet.of([Tool(name) for name in NAMES])
# Formats whose own syntax has no marker and can stand behind text: there `bare.md` may hold calls.
MARKERLESS = frozenset({"llama3_json", "tool_tags"})


def texts(kind: str) -> list[str]:
    return (FOLDER / f"{kind}.md").read_text(encoding="utf-8").removesuffix("\n").split("\n§§§\n")


# An answer that is two empty tags and nothing else says nothing.
_ALONE = re.compile(r"\s*<([^<>]+)>\s*</\1>\s*")


def shown_ways(kind: str) -> list[str]:
    """Each text as it is, with other line ends, and, where it is code or data, as an answer would show it."""
    plain = texts(kind)
    found = [*plain, *(text.replace("\n", "\r\n") + "\r\n" for text in plain)]
    if kind in {"code", "data", "shell"}:
        found += [f"Here it is:\n\n`````text\n{text}\n`````\n\nDoes that help?" for text in plain]
        found += [f"`````\n{text}\n`````" for text in plain]
        found += ["1. First:\n   ~~~~~\n   " + text.replace("\n", "\n   ") + "\n   ~~~~~\n2. Then?" for text in plain]
    if kind in {"prose", "bare"}:
        found += ["> " + text.replace("\n", "\n> ") for text in plain]
        found += [f"Well.\n{text}\n\n{text}" for text in plain]
    return found


def _share(name: str, found: list[str]) -> list[tuple[int, str]]:
    """The texts that a format reads, with their numbers: `auto` and TEST_THOROUGH=1 all, each other one a quarter,
    another one than its neighbour's. Formats share their readers, so every reader meets every text.
    """
    numbered = list(enumerate(found))
    if name == "auto" or THOROUGH:
        return numbered
    return numbered[registry.names().index(name) % 4 :: 4]


def test_the_corpus_is_large() -> None:
    assert sum(len(texts(kind)) for kind in KINDS) >= 240
    assert sum(len(shown_ways(kind)) for kind in KINDS) >= 900
    assert all(len(set(texts(kind))) == len(texts(kind)) for kind in KINDS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", registry.names())
def test_ordinary_answers_are_no_calls(name: str, kind: str) -> None:
    if kind == "bare" and name in MARKERLESS:
        pytest.skip(f"{name} has no marker")
    fmt = registry.get(name)
    for number, text in _share(name, shown_ways(kind)):
        if _ALONE.fullmatch(text):
            continue
        whole = read(fmt.parser(TOOLS, ParserOptions()), [text])
        assert not calls_in(whole), text
        assert shown_in(whole) == text
        for pieces in random_cuts(text, 2, number):
            assert read(fmt.parser(TOOLS, ParserOptions()), pieces) == whole, pieces
        if number % 7 == 0:
            assert read(fmt.parser(TOOLS, ParserOptions()), list(text)) == whole
