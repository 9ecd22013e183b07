"""What a structural tag holds a model to is what the family's reader reads.

Recorded are xgrammar's verdicts on texts in each of its styles; the readers are asked about the same texts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions, Tag
from toolcall_middleware.formats.family import Family
from toolcall_middleware.model import ChoiceMode, Tool, ToolCall, ToolChoice, ToolSet

from ..parsing.streams import Call, calls_in, read

RECORDED: dict[str, Any] = json.loads((Path(__file__).parent / "xgrammar_styles.json").read_text("utf-8"))
TOOL = Tool("f", "", RECORDED["schema"])
VALID = jsonschema.Draft202012Validator(RECORDED["schema"])
NAMES = sorted(RECORDED["written"])
# The reader takes a list of elements of any one name for one; the style knows `item` alone.
LENIENT = {("minimax_m3", "<l>]<]minimax[>[<k>")}


def tag_of(name: str) -> Tag:
    made = registry.get(name).constraint([TOOL], ToolChoice(ChoiceMode.REQUIRED))
    assert made is not None
    (tag,) = made.tags
    return tag


def found_in(name: str, text: str, *more: Tool) -> list[Call]:
    return calls_in(read(registry.get(name).parser(ToolSet.of([TOOL, *more]), ParserOptions()), [text]))


def is_a_clean_call(found: list[Call]) -> bool:
    return len(found) == 1 and found[0].complete and not found[0].repaired and VALID.is_valid(arguments_of(found[0]))


def arguments_of(call: Call) -> Any:
    return json.loads(call.arguments)


def test_every_family_with_a_style_is_recorded() -> None:
    families = [registry.get(name) for name in registry.names() if name != "auto"]
    assert [fmt.name for fmt in families if isinstance(fmt, Family) and fmt.calls.structural_tag] == sorted(
        NAMES, key=registry.names().index
    )


@pytest.mark.parametrize("name", NAMES)
def test_what_the_tag_accepts_is_read_as_a_valid_call(name: str) -> None:
    tag = tag_of(name)
    accepted = RECORDED["styles"][tag.style]["accepted"]
    assert len(accepted) > 20
    for text in accepted:
        for reader in (name, "auto"):
            assert is_a_clean_call(found_in(reader, f"{tag.begin}{text}{tag.end}")), text


@pytest.mark.parametrize("name", NAMES)
def test_a_call_without_arguments_may_follow_one(name: str) -> None:
    clock = Tool("clock")
    made = registry.get(name).constraint([TOOL, clock], ToolChoice(ChoiceMode.REQUIRED))
    assert made is not None
    first, second = made.tags
    text = f"{first.begin}{RECORDED['styles'][first.style]['accepted'][0]}{first.end}\n{second.begin}{second.end}"
    for reader in (name, "auto"):
        call, empty = found_in(reader, text, clock)
        assert is_a_clean_call([call])
        assert (empty.name, empty.arguments, empty.complete) == ("clock", "{}", True)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_tag_refuses_is_no_valid_call(name: str) -> None:
    tag = tag_of(name)
    refused = RECORDED["styles"][tag.style]["refused"]
    assert len(refused) > 7
    for text in refused:
        if not any(name == lenient and part in text for lenient, part in LENIENT):
            assert not is_a_clean_call(found_in(name, f"{tag.begin}{text}{tag.end}")), text


@pytest.mark.parametrize("name", NAMES)
def test_what_the_family_writes_is_what_the_tag_accepts(name: str) -> None:
    """The recorded texts are the family's own; xgrammar takes all of them."""
    tag = tag_of(name)
    for text in RECORDED["written"][name]:
        (call,) = found_in(name, text)
        assert text.startswith(tag.begin)
        assert text.endswith(tag.end)
        assert registry.get(name).render_calls([ToolCall("f", call.arguments)]) == text
