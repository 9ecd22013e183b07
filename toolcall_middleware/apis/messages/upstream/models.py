"""What a Claude model's requests may hold, by its name: newer models refuse what older ones need.

Sources: Anthropic's pages on model migration, thinking and structured outputs, as of November 2026. A name without a
version is taken for a new model; a name that is not Claude's (other vendors offer this API too) for one that takes the
API's long-standing fields and nothing recent.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

# claude-opus-4-1-20250805, claude-3-7-sonnet-latest, anthropic.claude-opus-4-6-v1, claude-2.1
_CLAUDE = re.compile(r"claude-(?:[a-z]+-)*(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?")
_ALWAYS_THINKS = re.compile(r"claude-(?:mythos|fable)")
_NEWEST = (99, 0)


class Thinking(enum.Enum):
    """How a model is asked to think."""

    NO = "no"
    BUDGET = "budget"  # thinking: enabled, with a number of tokens
    ADAPTIVE = "adaptive"  # thinking: adaptive, with output_config.effort


@dataclass(frozen=True, slots=True)
class Abilities:
    """What may be sent to a model.

    `sampling`: temperature, top_p, top_k. `both_sampling`: temperature and top_p together. `structured`:
    `output_config.format` and `strict` tools. `forced`: tool_choice `any` and `tool`. `off`: thinking can be disabled;
    `on`: it is on where nothing is said. `efforts`: what `output_config.effort` may say.
    """

    sampling: bool
    both_sampling: bool
    structured: bool
    thinking: Thinking
    forced: bool
    off: bool
    on: bool = False
    efforts: tuple[str, ...] = ()


_OTHERS = Abilities(
    sampling=True, both_sampling=True, structured=False, thinking=Thinking.BUDGET, forced=True, off=True
)


def abilities(model: str) -> Abilities:
    """What may be sent to `model`."""
    name = model.lower()
    if "claude" not in name:
        return _OTHERS
    found = _CLAUDE.search(name)
    version = (int(found[1]), int(found[2] or 0)) if found else _NEWEST
    thinker = _ALWAYS_THINKS.search(name) is not None
    thinking = Thinking.BUDGET if version >= (3, 7) else Thinking.NO
    if version >= (4, 6):
        thinking = Thinking.ADAPTIVE
    efforts: tuple[str, ...] = ()
    if thinking is Thinking.ADAPTIVE:
        efforts = ("low", "medium", "high", "xhigh", "max") if version >= (4, 7) else ("low", "medium", "high", "max")
    return Abilities(
        sampling=version < (4, 7),
        both_sampling=version < (4, 1),
        structured=version >= (4, 5),
        thinking=thinking,
        forced=version < (5, 1),
        off=not thinker and version < (5, 1),
        on=thinker or version >= (5, 0),
        efforts=efforts,
    )
