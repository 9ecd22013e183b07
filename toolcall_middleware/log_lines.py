"""The grammar of log lines: `event: name=value name=value`, and the same fields by name for JSON."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from typing import Any

FIELDS = "toolcall"
"""The attribute of a log record that holds the fields of its line, by name."""
_PLAIN = re.compile(r"[A-Za-z0-9._:/+=@~%,*()\[\]-]+")
_LONGEST = 500


def pairs(fields: Mapping[str, Any]) -> str:
    """Return `name=value name=value`, without values that are None or empty. Others than words are JSON in ASCII."""
    words = []
    for name, value in fields.items():
        if value is None or value == "":
            continue
        text = str(value)[:_LONGEST]
        words.append(f"{name}={text if _PLAIN.fullmatch(text) else json.dumps(text)}")
    return " ".join(words)


def log_event(logger: logging.Logger, level: int, event: str, fields: Mapping[str, Any]) -> None:
    """Log one event with its fields. They may hold what a client or a model wrote, and no secret."""
    if logger.isEnabledFor(level):
        extra = {FIELDS: {"event": event.replace(" ", "_"), **fields}}
        logger.log(level, "%s", f"{event}: {pairs(fields)}", extra=extra)
