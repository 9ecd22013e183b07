"""The seam to a provider whose API is not OpenAI's: what a translation of one request and its answer does. No I/O.

hosts/proxy/upstream/providers.py drives it; each provider has a package here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .passage import Passage

NO_RESULT = "No result was given for this call."
"""Stands for a result that a client left out, where the provider wants one for each call."""


@dataclass(frozen=True, slots=True)
class TranslatedRequest:
    """A request for the provider. `path` begins at the root of its API (`/v1/messages`), already escaped.

    `query` is without the question mark. `headers` are added to the client's and win over them; those that the
    provider always wants, and its key, are the host's business.
    """

    path: str
    body: bytes = b""
    method: str = "POST"
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Translation(Protocol):
    """One request and its answer. First `request` or `models`, then either `whole`, or `feed`s and `finish`."""

    @property
    def stream(self) -> bool:
        """Whether the client asked for a stream. Known after `request`."""
        ...

    @property
    def done(self) -> bool:
        """Whether `[DONE]` has left: what comes later, also a fault, is no longer the client's business."""
        ...

    def request(self, body: bytes, passage: Passage | None = None, /) -> TranslatedRequest:
        """The client's chat completion for the provider. Raises ToolCallError for what it cannot express.

        passage: the request that it was made of, which a provider of the client's own API gets as it came.
        """
        ...

    def models(self, name: str | None, /) -> TranslatedRequest:
        """The same for the list of models (None), or for one of them."""
        ...

    def whole(self, status: int, data: bytes, /) -> tuple[int, bytes]:
        """A collected answer of any status: the client's status and body (a completion, a list of models, an error).

        An error keeps its status and text, in OpenAI's envelope. The host's own errors are in that envelope already
        and stay as they are. Raises ToolCallError (`upstream_error`) for a success that cannot be read, and may raise
        an error that has headers of its own.
        """
        ...

    def feed(self, data: bytes, /) -> bytes:
        """The next bytes of the provider's event stream, cut anywhere: OpenAI's events, as far as they are known."""
        ...

    def finish(self, *, cut: bool) -> bytes:
        """The provider's stream is over: what is held back.

        Without `cut`, a stream that lacks its end gets an error event and `[DONE]`. With `cut` nothing is said about
        that, and no `[DONE]`: the host knows the reason and tells it.
        """
        ...
