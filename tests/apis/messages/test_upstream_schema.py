"""Which schemas Anthropic's decoder is given."""

from __future__ import annotations

from typing import Any

import pytest

from toolcall_middleware.apis.messages.upstream import request as upstream_request
from toolcall_middleware.apis.messages.upstream.request import can_be_constrained

STRICT = {"type": "object", "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({**STRICT, "$defs": {"A<b>": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/A%3Cb%3E"}}}, True),
        ({**STRICT, "definitions": {"A": STRICT}, "properties": {"a": {"$ref": "#/definitions/A"}}}, True),
        ({**STRICT, "$defs": {"A": {"pattern": "x"}}, "properties": {"a": {"$ref": "#/$defs/A"}}}, False),
        ({**STRICT, "$defs": {"A": {"$ref": "#/$defs/A"}}, "properties": {"a": {"$ref": "#/$defs/A"}}}, False),
        (
            {**STRICT, "$defs": {"A": {"items": {"$ref": "#/$defs/A"}}}, "properties": {"a": {"$ref": "#/$defs/A"}}},
            False,
        ),
        ({**STRICT, "properties": {"a": {"$ref": "#"}}}, False),
        ({**STRICT, "properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}}, False),
        ({**STRICT, "properties": {"a": {"$ref": "#/$defs/none"}}}, False),
        ({**STRICT, "properties": {"a": {"$ref": 5}}}, False),
    ],
)
def test_references_that_the_decoder_takes(schema: dict[str, Any], plain: bool) -> None:
    assert can_be_constrained(schema) is plain


def test_a_definition_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ways lead to each definition from the one before it: two to the power of 20 to the last."""
    looked: list[int] = []
    holds = upstream_request._Plain.holds

    def counted(self: Any, schema: Any, depth: int) -> bool:
        looked.append(depth)
        return holds(self, schema, depth)

    monkeypatch.setattr(upstream_request._Plain, "holds", counted)
    defs: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(20)}
    root = {**STRICT, "$defs": {**defs, "d20": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}
    assert can_be_constrained(root)
    assert len(looked) < 100
