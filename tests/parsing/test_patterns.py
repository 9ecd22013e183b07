"""A pattern that is said to match everywhere does."""

from __future__ import annotations

import pytest

from toolcall_middleware.parsing.patterns import WHITE_SPACE, anywhere


def test_a_pattern_that_matches_everywhere_needs_no_question() -> None:
    assert anywhere("[a-z]*").match("ab1", 1).end() == 2
    assert WHITE_SPACE.match("a \t\r\nb", 1).end() == 5
    with pytest.raises(ValueError, match="does not match everywhere"):
        anywhere("[a-z]+")
