r"""Arguments of a streamed call without escapes of lone surrogates.

Models write `"\ud83d"` alone where a character is cut. JSON allows it, but the reader of Anthropic's SDK for Python
does not, and the whole stream fails there. U+FFFD takes its place, as it does for one that is no escape.
"""

from __future__ import annotations

import re

_HIGH = r"\\u[dD][89abAB][0-9a-fA-F]{2}"
_ESCAPE = re.compile(
    rf"""(?P<open>{_HIGH}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?\Z | \\(?:u[0-9a-fA-F]{{0,3}})?\Z)
    | {_HIGH}\\u[dD][c-fC-F][0-9a-fA-F]{{2}} | (?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{{2}}) | \\.""",
    re.DOTALL | re.VERBOSE,
)
"""An escape that more text can complete, a pair, a lone surrogate, any other escape. Each has a bounded length."""


class WholePairs:
    """Reads the arguments of one call in pieces.

    holds: what is held back, at most one escape, or the first half of a pair with the beginning of the second.
    """

    __slots__ = ("holds",)

    def __init__(self) -> None:
        self.holds = ""

    def feed(self, text: str) -> str:
        """Return what can be emitted after the next piece; itself where no escape in it can be a surrogate."""
        if not text.isascii():
            text = _whole(text)
        if not self.holds and "\\u" not in text and not text.endswith("\\"):
            return text
        text, self.holds = self.holds + text, ""
        return _ESCAPE.sub(self._one, text)

    def finish(self) -> str:
        """Return what was held back, now that the arguments are over."""
        held, self.holds = self.holds, ""
        return re.sub(_HIGH, "\\\\ufffd", held)

    def _one(self, match: re.Match[str]) -> str:
        if match["open"] is not None:
            self.holds = match["open"]
            return ""
        return "\\ufffd" if match["half"] else match[0]


def _whole(text: str) -> str:
    """The text with U+FFFD for each lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
