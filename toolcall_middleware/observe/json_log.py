"""The lines of the log: `event: name=value …`, the request that each belongs to, and the same fields as JSON."""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Protocol

LOGGERS = ("toolcall_middleware", "toolcall_middleware.proxy", "toolcall_middleware.anthropic")
_LONGEST = 256
FIELDS = "toolcall"
"""The attribute of a log record that holds the fields of its line, by name."""
_PLAIN = re.compile(r"[A-Za-z0-9._:/+=@~%,*()\[\]-]+")
_LONGEST_VALUE = 500


def pairs(fields: Mapping[str, Any]) -> str:
    """Return `name=value name=value`, without values that are None or empty. Others than words are JSON in ASCII."""
    words = []
    for name, value in fields.items():
        if value is None or value == "":
            continue
        text = str(value)[:_LONGEST_VALUE]
        words.append(f"{name}={text if _PLAIN.fullmatch(text) else json.dumps(text)}")
    return " ".join(words)


def log_event(logger: logging.Logger, level: int, event: str, fields: Mapping[str, Any]) -> None:
    """Log one event with its fields. They may hold what a client or a model wrote, and no secret."""
    if logger.isEnabledFor(level):
        extra = {FIELDS: {"event": event.replace(" ", "_"), **fields}}
        logger.log(level, "%s", f"{event}: {pairs(fields)}", extra=extra)


class Request(Protocol):
    """The request at hand, as far as it is known."""

    id: str
    tenant: str | None
    upstream: str | None


_at_hand: ContextVar[Request | None] = ContextVar("toolcall_request", default=None)


@contextlib.contextmanager
def lines_of(request: Request) -> Iterator[None]:
    """Every line that is logged within the context belongs to `request`."""
    token = _at_hand.set(request)
    try:
        yield
    finally:
        _at_hand.reset(token)


class _Joins(logging.Filter):
    """Adds the request's id, tenant and upstream to a line: `… id=req_1 tenant=blue upstream=local`."""

    def filter(self, record: logging.LogRecord) -> bool:
        request = _at_hand.get()
        if request is not None and request.id:
            given = {"id": request.id, "tenant": request.tenant, "upstream": request.upstream}
            names = {name: value[:_LONGEST] for name, value in given.items() if value}
            record.msg, record.args = f"{record.getMessage()} {pairs(names)}", ()
            setattr(record, FIELDS, {**getattr(record, FIELDS, {}), **names})
        return True


for _name in LOGGERS:
    logging.getLogger(_name).addFilter(_Joins())


def time_of(seconds: float) -> str:
    """A time as every line has it: ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


class JsonFormatter(logging.Formatter):
    """One JSON object a line: `time`, `level`, `logger`, `message`, and what the line says by name.

    `message` is the line as text. No line has arguments, prompts or keys.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line of `record`, without its line end."""
        row = {
            "time": time_of(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            row["exception"] = self.formatException(record.exc_info)
        return json.dumps(row)
