"""What a model wrote for a call's arguments, where that is kept for clients that repair arguments themselves.

Where a syntax has JSON for them, they are that text: its reader tells of it. In any other syntax they are all that
stands between the call's opening and its closing marker: brackets and what is between them (`(x=1, y=)` of Python,
`{x:1` of Gemma), elements (`<parameter=x>1`), or a message's text. No reader gathers that: the sink sees it pass.
"""

from __future__ import annotations


class WrittenArguments:
    """The text of the open call's arguments. `value`: what the reader of one value, such as JSON, has read of it."""

    __slots__ = ("_behind_name", "value")

    def __init__(self) -> None:
        self.value: list[str] = []
        self._behind_name: list[str] = []

    def forget(self) -> None:
        """What was read has become no call: it is nobody's arguments."""
        self.value.clear()

    def begin(self) -> None:
        """A call has begun. JSON may stand before its name, and stays."""
        self._behind_name.clear()

    def passes(self, raw: str) -> None:
        """Text of the call behind its name."""
        self._behind_name.append(raw)

    def take(self, closing: tuple[str, ...] | None) -> str:
        """The call is over.

        closing: the markers of which one may stand at its end; None where what stands behind its name is not known to
        be its arguments, or needs no repair.
        """
        text = "".join(self.value)
        if not text and closing is not None:
            text = "".join(self._behind_name).lstrip()
            marker = next((marker for marker in closing if marker and text.endswith(marker)), "")
            if marker:
                text = text[: -len(marker)].rstrip()  # the line break before it is layout
        self.value.clear()
        self._behind_name.clear()
        return text
