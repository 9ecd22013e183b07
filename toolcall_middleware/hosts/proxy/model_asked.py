"""The model that a request is for, in whatever encoding its body is. A request whose model
cannot be read is refused: the first upstream would else be asked for it with the operator's key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from starlette.types import Scope

from ...errors import ToolCallError, shown
from ...wire.json_input import Members, read_fields, read_members
from ...wire.openai import read_value
from ..http.bodies import hides_words, odd_charset
from ..http.headers import values_of
from .upstream.model_alias import model_of, with_model

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
        if model_of(body) != self.model:
            raise ToolCallError("invalid_request", "Send the model in a JSON body of UTF-8.", param="model")
        return with_model(body, model)


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
        value = read_members(body) if _is_odd(body) else read_value(body)
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
