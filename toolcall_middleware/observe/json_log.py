"""What every line of the log has: the request that it belongs to, one form of the time, and its fields as JSON."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Protocol

from ..log_lines import FIELDS, pairs

LOGGERS = ("toolcall_middleware", "toolcall_middleware.proxy", "toolcall_middleware.anthropic")
_LONGEST = 256


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
