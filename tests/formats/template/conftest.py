"""What a template adds to the markup that all readers know ends with its test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from toolcall_middleware.formats import markup


@pytest.fixture(autouse=True)
def _markup_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The registry of markup belongs to the process: a tag that one test adds is escaped differently in the next."""
    with monkeypatch.context() as patch:
        patch.setattr(markup, "_private", dict(markup._private))
        yield
    markup.gathered.cache_clear()
    markup.turn_markers.cache_clear()
