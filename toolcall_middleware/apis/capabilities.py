"""What of OpenAI's chat completions a provider's API can do: one table a provider, in one set of words.

`toolcall-middleware formats` prints them. Tests hold each row against what the translation does.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass


class Support(enum.Enum):
    """How far a feature goes."""

    YES = "yes"
    MODEL = "by model"  # where the model can; else as the note says
    MADE_UP = "made up for"  # the API lacks it, and the proxy sees to it
    LEFT_OUT = "left out"  # the answer is still one; a line in the log says it
    REFUSED = "refused"  # 400, naming the field


@dataclass(frozen=True, slots=True)
class Capability:
    """One row: how far, and what a user should know of it."""

    support: Support
    note: str = ""


# The rows of each table, in their order. The names are the request's.
FEATURES = (
    "tools",
    "tool_choice: required",
    "tool_choice: named",
    "tool_choice: allowed_tools",
    "parallel_tool_calls: false",
    "tools: strict",
    "arguments as a stream",
    "tool: is_error",
    "tool: image_url",
    "user: image_url",
    "user: file",
    "user: input_audio",
    "response_format",
    "reasoning_effort",
    "temperature, top_p",
    "stop",
    "max_tokens",
    "n",
    "logprobs",
    "seed",
    "frequency_penalty, presence_penalty",
    "logit_bias",
)

Capabilities = Mapping[str, Capability]


def table(**rows: tuple[Support, str] | Support) -> Capabilities:
    """A provider's table; keywords are the features' names with `_` for what no name can hold.

    Raises ValueError for a row too many or too few, so that no provider is silent on a feature.
    """
    names = {_keyword(feature): feature for feature in FEATURES}
    if rows.keys() != names.keys():
        raise ValueError(f"not the rows of the table: {sorted(rows.keys() ^ names.keys())}")
    found = {}
    for keyword, feature in names.items():
        row = rows[keyword]
        found[feature] = Capability(row) if isinstance(row, Support) else Capability(*row)
    return found


def _keyword(feature: str) -> str:
    return "".join(char if char.isalnum() else "_" for char in feature).replace("__", "_")
