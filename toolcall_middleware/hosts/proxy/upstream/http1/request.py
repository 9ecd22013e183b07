"""The head of a request, as bytes that no server can read in two ways."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ....http.client_library import httpx

_TOKEN = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+")
_TARGET = re.compile(rb"[\x21-\x7e]+")
# Without blanks around it, and without control characters that end a line to somebody.
_VALUE = re.compile(rb"(?:[^\x00\s]+(?:[ \t]+[^\x00\s]+)*)?")


def head_of(method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Request line, headers and the blank line. Raises httpx.LocalProtocolError for what is no HTTP.

    The grammar is RFC 9112's, sections 3 and 5. The error does not quote what is wrong: it may be a key.
    """
    verb = method.encode("latin-1", "replace")
    if not _TOKEN.fullmatch(verb) or not _TARGET.fullmatch(target):
        raise httpx.LocalProtocolError("the method or the target is no HTTP")
    lines = [verb, b" ", target, b" HTTP/1.1\r\n"]
    for name, value in headers:
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise httpx.LocalProtocolError("a header is no HTTP")
        lines += (name, b": ", value, b"\r\n")
    lines.append(b"\r\n")
    return b"".join(lines)
