"""A model's names: which one a request asks for, what it is called at an upstream, and the client's own in the answer.

A request is read in whatever encoding its body is. One whose model cannot be read is refused: the first upstream would
else be asked for it with the operator's key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Scope, Send

from ....errors import ToolCallError, shown
from ....settings import Settings
from ....wire import openai
from ....wire.json_input import Members, read_fields, read_members
from ....wire.sse import EventReader, ServerEvent, TooLargeError
from ...http.answer import Answer, Reads
from ...http.bodies import hides_words, odd_charset, offloaded
from ...http.head import OF_ITS_BYTES, values_of, without


@dataclass(frozen=True, slots=True)
class Rename:
    """Client's models that match `pattern` are `target` to the upstream; a `*` on both sides is the same text."""

    pattern: str
    target: str

    def to_upstream(self, model: str) -> str | None:
        """The upstream's name of a client's `model`; None when this rule is about others."""
        return _carry(model, self.pattern, self.target)

    def to_client(self, model: str) -> str | None:
        """The client's name of an upstream's `model`; None when this rule gives it none."""
        return _carry(model, self.target, self.pattern)


def aliases_of(settings: Settings) -> list[Rename]:
    """The rules of `model_aliases`."""
    return [Rename(*rule.split("=", 1)) for rule in settings.model_aliases]


def _carry(model: str, pattern: str, target: str) -> str | None:
    """`model` rewritten from one pattern to the other; None when it does not match or the `*` has no value."""
    before, star, after = pattern.partition("*")
    if not star:
        return target if model == pattern and "*" not in target else None
    if len(model) < len(before) + len(after) or not (model.startswith(before) and model.endswith(after)):
        return None
    return target.replace("*", model[len(before) : len(model) - len(after)], 1)


_WORD = re.compile(rb"model", re.IGNORECASE)
_PART = re.compile(rb"(?:^|\n)content-disposition[ \t]*:((?:[^\n]|\n[ \t])*)\n", re.IGNORECASE)
_PART_NAME = re.compile(rb"\bname[ \t]*=[ \t]*(?:\"([^\"]*)\"|([^\s;\"]+))", re.IGNORECASE)
_REST_OF_HEAD = re.compile(rb"(?:[^\r\n]+\r?\n)*\r?\n")
_FORM = b"application/x-www-form-urlencoded"
# JSON in any encoding: white space, byte order marks and the zero bytes of UTF-16 and UTF-32 may precede it.
_JSON = re.compile(rb"[\s\x00\xef\xbb\xbf\xfe\xff]*+[\[{]")
# Python's reader of JSON recognises these by the first bytes of the body.
_RECOGNISED = re.compile(r"utf-?8-sig|utf-?(?:16|32)(?:-?[lb]e)?")


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request asks for. `model`: None where it names none. `span`: its place in a form's body."""

    model: str | None
    span: tuple[int, int] | None = None

    def renamed(self, body: bytes, model: str) -> bytes:
        """The body with another model. Raises ToolCallError for a body whose model cannot be replaced."""
        if self.span is not None:
            begin, end = self.span
            return body[:begin] + model.encode() + body[end:]
        fields = openai.read_object(body) or {}
        if openai.read_text(fields.get("model")) != self.model:
            raise ToolCallError("invalid_request", "Send the model in a JSON body of UTF-8.", param="model")
        return openai.with_fields(body, {"model": model})


def asked_model(scope: Scope, body: bytes) -> Asked:
    """The one model that the body or the query of a request names. Raises ToolCallError where it is not certain.

    A body that begins as JSON is read as JSON whatever its content type says, because the middleware and most engines
    do not look at the type. A body whose type is a form is read as a form, too: all readings must name the same model.
    """
    kind = _content_type(scope)
    in_parts = kind.startswith(b"multipart/")
    charset = odd_charset(scope)
    if charset and (in_parts or kind == _FORM or not _RECOGNISED.fullmatch(charset)):
        raise _refusal(f"The charset {shown(charset)} hides which model the body names: send UTF-8.")
    if in_parts:
        found = list(_of_parts(body))
    elif kind == _FORM:
        found = [Asked(value) for value in _named(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))]
    else:
        found = []
    if not (in_parts or kind == _FORM) or _JSON.match(body):
        found += [Asked(model) for model in _of_json(body)]
    query = scope.get("query_string", b"").decode("latin-1")
    found += [Asked(value) for value in _named(parse_qsl(query))] if "odel" in query.lower() else []
    if len({asked.model for asked in found}) > 1:
        raise _refusal("The request names several models.")
    if len(found) > 1 and any(asked.span for asked in found):
        raise _refusal("The request names its model twice.")
    return found[0] if found else Asked(None)


def _of_json(body: bytes) -> Iterator[str]:
    if b"model" not in body.lower() and not hides_words(body):
        return
    try:
        value = read_members(body) if _is_odd(body) else openai.read_value(body)
        failed = value is None
    except (ValueError, RecursionError):
        value, failed = None, True
    if isinstance(value, dict):
        value = Members(value.items())
    if isinstance(value, Members):
        yield from _named(value)
    elif failed or (isinstance(value, list) and b"model" in body.lower()):
        read_fields(body)  # raises, in the words of a request whose upstream is the only one
        raise _refusal("The request's body cannot be read, and so not who may answer it.")


def _is_odd(body: bytes) -> bool:
    """Whether a body may name a model more than once or in disguise."""
    return body.lower().count(b"model") > 1 or hides_words(body) or not body.lstrip().startswith(b"{")


def _named(pairs: Any) -> Iterator[str]:
    for name, value in pairs:
        if name.casefold().strip() != "model" or value is None:
            continue
        if name != "model":
            raise _refusal(f"The field {shown(name)} is to be spelled 'model'.")
        if not isinstance(value, str):
            raise _refusal(f"'model' must be a string, got {shown(value)}.")
        yield value


def _of_parts(body: bytes) -> Iterator[Asked]:
    for part in _PART.finditer(body):
        names = [quoted or bare for quoted, bare in _PART_NAME.findall(part[1])]
        if not _WORD.search(b" ".join(names)) and b"name*" not in part[1].lower():
            continue
        head = _REST_OF_HEAD.match(body, part.end())
        if names != [b"model"] or b"*" in part[1] or head is None:
            raise _refusal("The form's field of the model is to be spelled 'model', once.")
        end = next((at for mark in (b"\r\n", b"\n") if (at := body.find(mark, head.end())) >= 0), len(body))
        value = body[head.end() : end]
        yield Asked(value.decode("utf-8", "replace"), (head.end(), end))


def _content_type(scope: Scope) -> bytes:
    kinds = values_of(scope["headers"], b"content-type")
    if len(kinds) > 1:
        raise _refusal("The request has two content types.")
    return kinds[0].partition(b";")[0].strip().lower() if kinds else b""


def _refusal(message: str) -> ToolCallError:
    return ToolCallError("invalid_request", message, param="model")


_HOLDERS = ("message", "response")
"""Where events of Messages (`message_start`) and of Responses (`response.created`) have what names the model."""


class AliasedAnswer(Answer):
    """Puts `model` into an answer, whole or streamed, where it names a model.

    What is no JSON object and no event stream, is coded, or exceeds `limit` bytes passes as it is.
    """

    def __init__(self, send: Send, model: str, limit: int | None) -> None:
        super().__init__(send, limit)
        self._model = msgspec.Raw(openai.encode(model))
        self._events = EventReader(limit)
        self._gives_up = False

    def begun(self) -> Reads:
        """See Answer."""
        if self.coding or self.kind not in {b"text/event-stream", b"application/json"}:
            return Reads.NOTHING
        if self.kind == b"application/json":
            return Reads.WHOLE
        self.start["headers"] = without(self.start["headers"], OF_ITS_BYTES)
        return Reads.PIECES

    async def piece(self, data: bytes, *, last: bool) -> bytes:
        """See Answer."""
        if self._gives_up:
            return data
        size = len(data) + len(self._events.buffer)  # the end of a huge event may be small
        return await offloaded(size, self._read, self._events, data, last)

    async def whole(self, body: bytes) -> bytes | None:
        """See Answer."""
        out = await offloaded(len(body), self._in_object, body)
        if out is body:
            return None
        self.replaced(length=len(out))
        return out

    def _read(self, reader: EventReader, data: bytes, last: bool) -> bytes:  # noqa: FBT001 - for a thread
        try:
            events = reader.feed(data)
        except TooLargeError:
            events = []
            self._gives_up = True
        if last:
            events += reader.finish()
        out = b"".join([self._aliased(event) for event in events])
        return out + reader.rest() if self._gives_up else out

    def _aliased(self, event: ServerEvent) -> bytes:
        if event.data is None or b'"model"' not in event.data:
            return event.raw
        data = self._in_object(event.data)
        if data is event.data:
            return event.raw
        before, found, after = event.raw.partition(event.data)
        if not found:  # on several lines, between the tokens of the object
            data = data.replace(b"\n", b" ")
            return (b"event: " + event.name.encode() + b"\n" if event.name else b"") + openai.event(data)
        return before + data + after

    def _in_object(self, data: bytes) -> bytes:
        fields = openai.read_object(data)
        if fields is None:
            return data
        if "model" in fields:
            fields["model"] = self._model
            return openai.encode(fields)
        for name in _HOLDERS if "type" in fields else ():
            inner = openai.read_object(fields.get(name))
            if inner is not None and "model" in inner:
                return openai.encode({**fields, name: {**inner, "model": self._model}})
        return data
