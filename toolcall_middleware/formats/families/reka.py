"""Reka Edge: calls as Hermes has them."""

from __future__ import annotations

from dataclasses import replace

from ..prompt.thoughts import NO_THOUGHTS
from .qwen import HERMES

# https://huggingface.co/RekaAI/reka-edge-2603 (llama.cpp: models/templates/Reka-Edge.jinja): calls as Hermes has them.
REKA = replace(
    HERMES,
    name="reka",
    about="as `hermes`: Reka Edge",
    models={"reka-edge": "[llama.cpp] Reka-Edge"},
    fine_tunes={},
    alike={},
    thoughts=NO_THOUGHTS,
)

FAMILIES = (REKA,)
