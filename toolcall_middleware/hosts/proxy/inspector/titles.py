"""What a row of the inspector's list says of an exchange, and which conversation it belongs to."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ....observe.content import answers_of
from ....observe.report import Row

_LONGEST = 120  # characters of a title
_VALUE = 60  # of an argument in it
_LONGEST_PATH = 1024
_PATH = re.compile(r"(?:~|[A-Za-z]:)?[/\\]\S*[/\\](\S+)")
_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"


class _Message(msgspec.Struct):
    role: Any = None
    content: Any = None


class _Asked(msgspec.Struct):
    messages: list[_Message] = []


_ASKED = msgspec.json.Decoder(_Asked)


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request tells. conversation: the same for the requests of one, by how it begins."""

    words: str = ""
    conversation: str = ""
    messages: int = 0
    goes_on: bool = False
    """Its last message is none of the user's: an agent sends a tool's result."""


def asked(rows: Sequence[Row]) -> Asked:
    """What the request among an exchange's rows tells; nothing where it has none that can be read."""
    body = next((str(row.get("data", "")) for row in rows if row["kind"] == "request"), "")
    try:
        messages = _ASKED.decode(body).messages
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return Asked()
    said = [_text(message.content) for message in messages if message.role == "user"]
    if not said:
        return Asked(messages=len(messages))
    begin = hashlib.sha256(said[0].encode("utf-8", "replace")).hexdigest()[:16]
    return Asked(_short(_without_reminders(said[-1])), begin, len(messages), messages[-1].role != "user")


def title(known: Asked, rows: Sequence[Row]) -> str:
    """The user's last words; where an agent goes on, the call that the answer makes: `read greet.py`."""
    if not known.goes_on:
        return known.words
    parts = (part for message in answers_of(rows) for part in message["parts"])
    call = next((part for part in parts if part["type"] == "tool_call"), None)
    if call is None:
        return known.words
    arguments = call["arguments"]
    values = list(arguments.values()) if isinstance(arguments, dict) else [arguments]
    shown = next((value for value in values if isinstance(value, str)), "")
    if path := _PATH.fullmatch(shown[:_LONGEST_PATH]):
        shown = path[1]
    return _short(f"{call['name']} {shown[:_VALUE]}")


def _text(content: Any) -> str:
    if isinstance(content, list):
        parts = [part.get("text") for part in content if isinstance(part, dict)]
        # Agents put reminders before what the user wrote.
        return next((part for part in reversed(parts) if isinstance(part, str)), "")
    return content if isinstance(content, str) else ""


def _without_reminders(text: str) -> str:
    """What a user wrote, without what Claude Code puts before and after it. All of it where nothing else is there."""
    own, at = "", 0
    while (begin := text.find(_REMINDER, at)) >= 0 and (end := text.find(_REMINDER_END, begin)) >= 0:
        own += text[at:begin]
        at = end + len(_REMINDER_END)
    own += text[at:]
    return own if own.strip() else text


def _short(text: str) -> str:
    line = " ".join(text[: 4 * _LONGEST].split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
