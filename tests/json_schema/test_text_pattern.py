"""Regular expressions of custom tools as patterns of JSON Schema: only what every engine reads alike."""

from __future__ import annotations

import re

import pytest

from toolcall_middleware.json_schema.pattern import MAX_UNROLLED, text_pattern


@pytest.mark.parametrize(
    ("grammar", "fits", "fails"),
    [
        ("^[A-Z]{2}-[0-9]+$", ["AB-1"], ["A-1", "AB-1 ", "xAB-1"]),
        (r"\d+(\.\d{1,2})?", ["12", "12.50"], ["12.", "a"]),
        ("(yes|no)", ["yes", "no"], ["yesno"]),
        ("go|stop", ["go", "stop"], ["gostop"]),
        (r"[a-z_.-]+@\w+", ["a.b@c"], ["@c"]),
    ],
)
def test_a_plain_expression_holds_the_whole_text(grammar: str, fits: list[str], fails: list[str]) -> None:
    pattern = text_pattern(grammar)
    assert pattern is not None
    assert all(re.search(pattern, text) for text in fits)
    assert not any(re.search(pattern, text) for text in fails)


@pytest.mark.parametrize(
    "grammar",
    ["", ".", 'say "x"', "[^a]", r"\s", r"\n", "[A-z]", "[ -~]", "(?=a)", "(?i)a", "(?:a)", "^a|b$", "é", "(", "a)",
     f"(a{{999}}){{{MAX_UNROLLED}}}", "a" * 2000, r"a\\"],
)  # fmt: skip
def test_what_is_not_certain_is_no_pattern(grammar: str) -> None:
    assert text_pattern(grammar) is None


def test_a_hostile_expression_is_refused_in_linear_time() -> None:
    for hostile in ("(" * 1000, "[a" * 500, "a{" * 500, "a{1," * 250, "(a*)*" * 200):
        text_pattern(hostile)
