"""The head of a request, as bytes that no server can read in two ways."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ....http.client_library import httpx

_TOKEN = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+")
_TARGET = re.compile(rb"[\x21-\x7e]+")
# A name, and a value without blanks around it, and without control characters that end a line to somebody.
# Possessive, because what does not match need not be tried in another way.
_LINES = re.compile(rb"(?:[-!#$%&'*+.^_`|~0-9a-zA-Z]++: (?:[^\x00\s]++(?:[ \t]++[^\x00\s]++)*+)?\r\n)*+")


def head_of(method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Request line, headers and the blank line. Raises httpx.LocalProtocolError for what is no HTTP.

    The grammar is RFC 9112's, sections 3 and 5. The error does not quote what is wrong: it may be a key.
    """
    verb = method.encode("latin-1", "replace")
    if not _TOKEN.fullmatch(verb) or not _TARGET.fullmatch(target):
        raise httpx.LocalProtocolError("the method or the target is no HTTP")
    lines = [b"%b: %b\r\n" % pair for pair in headers]
    fields = b"".join(lines)
    # As many line ends as headers: none hides another one in it.
    if fields.count(b"\r\n") != len(lines) or not _LINES.fullmatch(fields):
        raise httpx.LocalProtocolError("a header is no HTTP")
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (verb, target, fields)
