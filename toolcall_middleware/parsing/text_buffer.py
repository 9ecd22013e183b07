"""Text that is collected in small pieces: a piece of four characters takes sixty bytes while it stands alone."""

from __future__ import annotations

_MANY = 1024


class Gathered:
    """Collects text. It takes about as many bytes as the text has characters of ASCII."""

    __slots__ = ("_joined", "_small")

    def __init__(self) -> None:
        self._joined: list[str] = []
        self._small: list[str] = []

    def write(self, text: str) -> None:
        """Add `text` behind what there is."""
        self._small.append(text)
        if len(self._small) == _MANY:
            self._joined.append("".join(self._small))
            self._small.clear()

    def take(self) -> str:
        """All of it, which is not kept any longer."""
        text = "".join([*self._joined, *self._small])
        self._joined.clear()
        self._small.clear()
        return text
