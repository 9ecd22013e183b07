"""Thoughts that a client of another API gives back reach the model again, as its family wants them."""

from __future__ import annotations

import json

from tests.fakes import Answer, Thinks, write_calls
