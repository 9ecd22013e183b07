"""Call ids in the form that an upstream demands, derived from the client's. Nothing is remembered.

The same id becomes the same one at each turn, and two of a request never become one. The ids of the upstream's answers
pass as they are: they have its form, and come back unchanged.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from ..errors import refusal
from ..wire import openai
from ..wire.openai import ALPHABET


@dataclass(frozen=True, slots=True)
class IdForm:
    """What an upstream takes for an id: a pattern, and an id of it for a digest."""

    pattern: re.Pattern[str]
    of_digest: Callable[[bytes], str]

    def fits(self, call_id: str) -> bool:
        """Whether the id can go as it is."""
        return self.pattern.fullmatch(call_id) is not None

    def derived(self, call_id: str, turn: int = 0) -> str:
        """An id of this form; another one for each `turn`, should they collide."""
        return self.of_digest(hashlib.sha256(f"{turn}:{call_id}".encode("utf-8", "surrogatepass")).digest())


def alphanumeric(length: int) -> IdForm:
    """Ids of so many letters and digits."""

    def of_digest(digest: bytes) -> str:
        number = int.from_bytes(digest)
        letters: list[str] = []
        for _ in range(length):
            number, letter = divmod(number, len(ALPHABET))
            letters.append(ALPHABET[letter])
        return "".join(letters)

    return IdForm(re.compile(f"[a-zA-Z0-9]{{{length}}}"), of_digest)


CLAUDE = IdForm(re.compile(r"[a-zA-Z0-9_-]{1,128}"), lambda digest: f"toolu_{digest.hex()[:24]}")
FORMS: Mapping[str, IdForm] = {
    # "Tool call id … must be a-z, A-Z, 0-9, with a length of 9", for calls and for their results.
    "mistral": alphanumeric(9),
}


def unique(call_ids: Iterable[str], form: IdForm) -> list[str]:
    """The upstream's id of each call, in the order of the conversation. The first call of an id that fits keeps it."""
    given = list(call_ids)
    taken = {call_id for call_id in given if form.fits(call_id)}
    times: dict[str, int] = {}
    found: list[str] = []
    for call_id in given:
        turn = times.get(call_id, 0)
        times[call_id] = turn + 1
        made = call_id
        if turn or not form.fits(call_id):
            while (made := form.derived(call_id, turn)) in taken:
                turn += 1
            taken.add(made)
        found.append(made)
    return found


def mapped(call_ids: Iterable[str], form: IdForm) -> dict[str, str]:
    """The upstream's id for each id of a request."""
    given = list(dict.fromkeys(call_ids))
    return dict(zip(given, unique(given, form), strict=True))


def with_ids(body: bytes, form: IdForm) -> bytes:
    """A chat completion whose calls and results have ids of `form`; `body` itself where they have already.

    All other fields keep their bytes. Raises ToolCallError `invalid_tool_call_id` for a result of no earlier call.
    What is no chat completion passes: the upstream says what is wrong with it.
    """
    fields = openai.read_object(body)
    messages = openai.read_objects(fields.get("messages")) if fields is not None else None
    if fields is None or not messages:
        return body
    calls = [[(call, openai.read_text(call.get("id"))) for call in _calls(message)] for message in messages]
    answered = [openai.read_text(message.get("tool_call_id")) for message in messages]
    known: dict[str, None] = {}
    for index, (own, answer) in enumerate(zip(calls, answered, strict=True)):
        known.update((call_id, None) for _, call_id in own if call_id is not None)
        if answer is not None and answer not in known:
            message = f"No earlier assistant message has a tool call with the id {answer[:100]!r}."
            raise refusal(f"messages[{index}].tool_call_id", message, "invalid_tool_call_id")
    ids = mapped(known, form)
    if all(call_id == other for call_id, other in ids.items()):
        return body
    for entry, own, answer in zip(messages, calls, answered, strict=True):
        if own:
            made = [call if call_id is None else {**call, "id": ids[call_id]} for call, call_id in own]
            entry["tool_calls"] = openai.raw(made)
        if answer is not None:
            entry["tool_call_id"] = openai.raw(ids[answer])
    return openai.encode({**fields, "messages": messages})


def _calls(message: openai.Fields) -> list[openai.Fields]:
    return openai.read_objects(message.get("tool_calls")) or []
