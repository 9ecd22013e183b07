"""A terminal that commands write to."""

from __future__ import annotations

import io


class Terminal(io.StringIO):
    """Keeps what is written."""

    def isatty(self) -> bool:
        return True
