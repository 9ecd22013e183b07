"""The special tokens of a text completion that are to be text: llama.cpp drops all that its `preserved_tokens` do not
name (its server's `params_from_json_cmpl`), where vLLM and SGLang take `skip_special_tokens: false`.

In chat completions llama.cpp fills the field by itself.
"""

from __future__ import annotations

from ...formats.base import ToolFormat
from ...formats.family import Family
from ...formats.models import thoughts_of
from ...formats.template.compare import tokens
from ...model import ToolCall

_CALLS = [ToolCall("f", '{"a": "b"}', "call_000000001"), ToolCall("f", '{"a": 1}', "call_000000002")]
_MOST = 64
"""Tokens that are named: each is looked up in the vocabulary."""


def preserved_tokens(fmt: ToolFormat, model: str) -> list[str]:
    """The markers of a format's calls, turns and thoughts. What is no single token of the model is ignored there."""
    tags = thoughts_of(fmt, model).tags
    family = fmt if isinstance(fmt, Family) else getattr(fmt, "prompt", None)
    markers = [*tokens(fmt.render_calls(_CALLS)), tags.opening, tags.close]
    if isinstance(family, Family):
        markup = family.markup
        markers += [tag for pair in markup.reasoning for tag in pair]
        markers += [*markup.noise, *markup.stops]  # what ends a turn ends the answer, and is no text
        markers += [opener.marker for opener in family.auto_openers]
    # A marker may be a token and a word behind it (`<|channel>thought`).
    found = dict.fromkeys(token for marker in markers for token in tokens(marker) or [marker.strip()])
    return [token for token in found if token][:_MOST]
