"""Renders chat templates within bounds: a process of their own, with a clock, a memory limit and a limit of output."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import FormatError
from ...installed import install_command

MAX_SOURCE = 1 << 20
"""Characters of a template's text: the longest that is known has 20,000."""
MAX_TEXT = 1 << 18
"""Characters of one rendering: a conversation of four short messages and two tools."""
SECONDS = 10
"""Of a processor, and of the clock twice as many, for all renderings together; a usual template takes 0.01."""
MEMORY = 1 << 30  # bytes of address space, Python's own included
_WORKER = Path(__file__).with_name("worker.py")
NO_JINJA = 3


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A chat template as a checkpoint holds it."""

    source: str
    special: Mapping[str, str] = field(default_factory=dict)
    """The special tokens that it may name, such as `bos_token`."""

    def render(self, contexts: Sequence[Mapping[str, Any]]) -> list[str | None]:
        """The text of each context (`messages`, `tools`, …); None where the template refuses it.

        Raises FormatError where there is no jinja2, the template is no Jinja or leaves its bounds.
        """
        if len(self.source) > MAX_SOURCE:
            raise FormatError(f"the chat template has more than {MAX_SOURCE} characters")
        order = {
            "path": sys.path,
            "template": self.source,
            # A template that adds the end of the turn to a text fails where nobody says what that is.
            "special": {"bos_token": "", "eos_token": "", **self.special},
            "contexts": list(contexts),
            "characters": MAX_TEXT,
            "cpu_seconds": SECONDS,
            "memory_bytes": MEMORY,
        }
        try:
            done = subprocess.run(  # noqa: S603 - this interpreter, and a file of ours
                [sys.executable, "-I", str(_WORKER)],
                input=json.dumps(order).encode(),
                capture_output=True,
                timeout=2 * SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise FormatError(f"the chat template takes longer than {2 * SECONDS} seconds") from None
        if done.returncode == NO_JINJA:
            raise FormatError(f"a chat template needs jinja2: {install_command('hf')}")
        if done.returncode:
            raise FormatError("the chat template takes more time or memory than it may, or cannot be rendered at all")
        outcomes: list[dict[str, str]] = json.loads(done.stdout)
        if len(outcomes) != len(contexts):
            raise FormatError(f"the chat template cannot be read: {outcomes[0].get('error', '')}")
        return [outcome.get("text") for outcome in outcomes]
