"""Log lines as JSON: a formatter for the standard `logging` tree, which any app's own configuration can name."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

FIELDS = "toolcall"
"""The attribute of a log record that holds what its line says, by name (`extra={FIELDS: {...}}`)."""


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, and what the line says by name.

    The same words as in text, so no arguments, prompts or keys.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line of `record`, without its line end."""
        row = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row)
