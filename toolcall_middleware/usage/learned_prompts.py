"""How long prompts were by the backend's own count: for answers that are ended before it has told.

The same prompt has the same length again. One that begins alike (the same tools, the same first message) is as far off
its estimate as that was; this is kept for each client by itself, whose own words made the difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ..fading_memory import FadingMemory, digest
from ..wire.openai import FAILURES
from .tokenizers.base import Tokenizer
from .tokenizers.prompt_parts import Count, read_prompt

KEPT_SECONDS = 600.0
_KEPT = 1024  # lengths and differences
_MAX_BODY = 1 << 18  # bytes; a longer one costs too much to look at, and is estimated
_BODY = msgspec.json.Decoder(dict[str, msgspec.Raw])
_MESSAGES = msgspec.json.Decoder(list[msgspec.Raw])
# What changes an answer, and no prompt.
_NO_PROMPT = frozenset({
    "stream", "stream_options", "max_tokens", "max_completion_tokens", "temperature", "top_p", "top_k", "min_p", "seed",
    "stop", "n", "user", "logprobs", "top_logprobs", "presence_penalty", "frequency_penalty", "logit_bias", "metadata",
    "store",
})  # fmt: skip


class _Keys(NamedTuple):
    prompt: str
    """Names all that makes the prompt."""
    beginning: str
    """Names the part of it that is the same in the next turns of a conversation."""


class LearnedPrompts:
    """Lengths of prompts, which fade. All requests share them; `of` gives the view of one client."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._client = b""
        self._known = FadingMemory[str, int](clock, most=_KEPT)

    def of(self, client: str) -> LearnedPrompts:
        """The same as one client sees it, who is told apart by `client`."""
        view = LearnedPrompts(self._clock)
        view._known, view._client = self._known, client.encode()
        return view

    def learn(self, body: bytes, tokens: int, tokenizer: Tokenizer) -> None:
        """The backend counted `tokens` for the prompt of `body`; `tokenizer` estimates such prompts otherwise."""
        keys = self._keys(body)
        if keys is None:
            return
        self._known.put(keys.prompt, tokens, seconds=KEPT_SECONDS)
        if not tokenizer.exact and len(body) <= tokenizer.chars_at_once and self._known.get(keys.beginning) is None:
            difference = tokens - tokenizer.count_prompt(read_prompt(body)).tokens
            self._known.put(keys.beginning, difference, seconds=KEPT_SECONDS)

    def recall(self, body: bytes, tokenizer: Tokenizer) -> Count | None:
        """How long the prompt of `body` is; None where nothing is known of it."""
        keys = self._keys(body)
        if keys is None:
            return None
        tokens = self._known.get(keys.prompt)
        if tokens is not None:
            return Count(tokens, exact=True)
        if tokenizer.exact or len(body) > tokenizer.chars_at_once:
            return None
        difference = self._known.get(keys.beginning)
        if difference is None:
            return None
        return Count(max(1, tokenizer.count_prompt(read_prompt(body)).tokens + difference), exact=False)

    def _keys(self, body: bytes) -> _Keys | None:
        if len(body) > _MAX_BODY:
            return None
        try:
            fields = _BODY.decode(body)
            messages = _MESSAGES.decode(fields.pop("messages", b"[]"))
        except FAILURES:
            return None
        fixed = [
            part
            for name in sorted(fields.keys() - _NO_PROMPT)
            for part in (name.encode("utf-8", "replace"), bytes(fields[name]))
        ]
        return _Keys(
            digest(b"prompt", *fixed, *map(bytes, messages)),
            digest(b"beginning", self._client, *fixed, *map(bytes, messages[:1])),
        )
