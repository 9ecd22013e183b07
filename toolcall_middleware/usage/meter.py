"""Token usage: the backend's own numbers where it gives any, else counted here; an estimate says that it is one.

A backend that was asked several times for one answer (retries) cost all of it: the numbers add up.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

from ..settings import Settings
from ..wire import openai
from .tokenizers.base import APPROXIMATE, BLOCK, Count, Tokenizer, call_text, last_seam, read_prompt
from .tokenizers.vocabularies import load
from .upstream_tokenizer import TOKENIZE, Questions, Refusals, ask_all

_KEPT = 1 << 17  # characters of one choice that are kept for counting at the end
_KEPT_TO_ASK = 1 << 22  # the same where the backend counts
_SETTLED = 2 * BLOCK  # characters of a longer one that are counted at once
ENDED = frozenset({"stop", "tool_calls", "function_call"})
"""The finish reasons of a choice that the model ended itself."""
_NAMES = ("prompt_tokens", "completion_tokens", "total_tokens")
_NEAR = 0.6  # an estimate errs by about a third
_TEXT = frozenset({"role", "content"})  # the only fields of most deltas


@dataclass(slots=True, eq=False)
class Attempt:
    """One request to the backend: its body, the text of its answer, and its known counts."""

    body: bytes = b""
    injected: str = ""
    backend: dict[str, Any] | None = None
    texts: dict[int, Transcript] = field(default_factory=dict)
    thoughts: dict[int, Transcript] = field(default_factory=dict)
    """Reasoning that is not part of the text, by choice."""
    ended: int = 0
    """Choices that the model ended itself."""
    loose: bool = False
    """The model wrote more than we have seen: markup that the backend took away."""
    prompt: Count | None = None
    completion: Count | None = None
    reasoning: int = 0
    injected_tokens: int | None = None

    @property
    def written(self) -> int:
        """How many characters the model wrote."""
        return sum(written.size for written in self.texts.values())

    @property
    def size(self) -> int:
        """Characters to be counted, about."""
        return len(self.body) + self.written

    @property
    def wants_prompt(self) -> bool:
        """Whether the prompt is to be counted; engines that count nothing say 0, and no prompt is empty."""
        return self.prompt is None and not _is_count(self.reported("prompt"), least=1)

    @property
    def wants_completion(self) -> bool:
        """Whether the completion is to be counted."""
        least = 1 if self.written else 0
        return self.completion is None and not _is_count(self.reported("completion"), least=least)

    def reported(self, kind: str) -> Any:
        """The backend's number of `prompt` or `completion` tokens; None where it gave none."""
        return (self.backend or {}).get(f"{kind}_tokens")


class UsageMeter:
    """Counts the tokens of one exchange, over all its attempts.

    `known`: use the backend's numbers. count: count those that it does not send. ask: makes the requests by which the
    backend counts; the tokenizer counts where it does not answer. extension: the field that reports the injection.
    spends: `spent` will be called. `limit`: how many tokens an answer may have, where that is of interest.
    """

    __slots__ = ("_ask", "_attempt", "_count", "_spends", "_tokenizer", "attempts", "extension", "known", "limit")

    def __init__(
        self,
        *,
        known: bool = True,
        count: bool = True,
        tokenizer: Tokenizer = APPROXIMATE,
        ask: Callable[[list[Attempt]], Questions] | None = None,
        extension: str | None = None,
        spends: bool = False,
    ) -> None:
        self.extension = extension
        self._spends = spends
        self.limit: int | None = None
        self.known = known
        self._count = count
        self._tokenizer = tokenizer
        self._ask = ask
        self._attempt = Attempt()
        self.attempts = [self._attempt]

    # -- events ----------------------------------------------------------------------------------------------------

    def sent(self, body: bytes, injected: str = "") -> None:
        """Note a request to the backend. injected: the injected part of its prompt, where that is reported."""
        self._attempt.body = body
        self._attempt.injected = injected

    @property
    def listens(self) -> bool:
        """Whether the model's text is needed for a count."""
        return self._count or self._spends or self.limit is not None

    def wrote(self, text: str, choice: int = 0) -> None:
        """The model wrote `text`."""
        if self.listens:
            self._add(self._attempt.texts, text, choice)

    def _add(self, transcripts: dict[int, Transcript], text: str, choice: int) -> None:
        written = transcripts.get(choice)
        if written is None:
            limit = _KEPT if self._ask is None else _KEPT_TO_ASK
            written = transcripts[choice] = Transcript(self._tokenizer, limit)
        written.add(text)

    def thought(self, text: str, choice: int) -> None:
        """Note reasoning in the model's text that is not part of the answer's text."""
        if self._count:
            self._add(self._attempt.thoughts, text, choice)

    def wrote_outside_content(self, message: openai.Fields, choice: int = 0) -> bool:
        """What the model wrote that is not in the content of a message or delta: reasoning, and the backend's calls.

        True when there was something.
        """
        if message.keys() <= _TEXT or not self.listens:
            return False
        before = self._attempt.written
        for name in openai.REASONING_FIELDS:
            # Some send it under both names.
            if text := openai.read_text(message.get(name)):
                self._attempt.loose = True
                self.wrote(text, choice)
                self.thought(text, choice)
                break
        for name in ("tool_calls", "function_call"):
            if not openai.is_null(message.get(name)):
                self._attempt.loose = True
                self.wrote(call_text(openai.read_value(message[name])), choice)
        if text := openai.read_text(message.get("refusal")):
            self.wrote(text, choice)
        return self._attempt.written > before

    def ended(self) -> None:
        """The model ended a choice itself."""
        self._attempt.ended += 1

    def saw(self, usage: Any) -> bool:
        """The backend gave numbers; the last ones of an attempt count (some engines send them with each chunk).

        True when they can go to the client as they are.
        """
        one = self._attempt
        if not isinstance(usage, dict):
            return False
        if not self.known:
            # Only the backend knows how much of the prompt was in its cache.
            one.backend = {name: value for name, value in usage.items() if name.endswith("_details")}
            return False
        if not _is_count(usage.get("completion_tokens")):
            return False
        one.backend, one.prompt, one.completion = usage, None, None
        if len(self.attempts) > 1 or one.injected or (self._count and (one.wants_prompt or one.wants_completion)):
            return False
        return isinstance(usage.get("prompt_tokens"), int) and _has_total(usage)

    def full(self) -> bool:
        """Whether this attempt has written about `limit` tokens: by the backend's numbers, else by estimate."""
        limit, one = self.limit, self._attempt
        if limit is None:
            return False
        if one.backend is not None and "completion_tokens" in one.backend:
            return bool(one.backend["completion_tokens"] >= limit)
        return sum(written.estimate() for written in one.texts.values()) >= limit * _NEAR

    @property
    def shown_tokens(self) -> int | None:
        """How long this attempt's answer was by the backend's own count, but for hidden reasoning that it counts."""
        numbers = self._attempt.backend or {}
        tokens, details = numbers.get("completion_tokens"), numbers.get("completion_tokens_details")
        hidden = details.get("reasoning_tokens") if isinstance(details, dict) else None
        if not isinstance(tokens, int):
            return None
        return tokens - (hidden if isinstance(hidden, int) else 0)

    def next_attempt(self) -> None:
        """This attempt is over and another one follows."""
        self._attempt = Attempt()
        self.attempts.append(self._attempt)

    # -- counts ----------------------------------------------------------------------------------------------------

    @property
    def will_estimate(self) -> bool:
        """Whether it is known beforehand that all numbers will be estimates."""
        return self._count and not self.known and self._ask is None and not self._tokenizer.exact

    @property
    def is_estimated(self) -> bool:
        """Whether any of the numbers is a guess of ours. After `total`."""
        counts = [count for one in self.attempts for count in (one.prompt, one.completion) if count is not None]
        return not all(count.exact for count in counts)

    @property
    def is_due(self) -> bool:
        """Whether something is to be counted that must not be counted on the event loop."""
        if not self._count:
            return False
        wanting = [one for one in self.attempts if one.wants_prompt or one.wants_completion or one.injected]
        return bool(wanting) and (
            self._ask is not None or sum(one.size for one in wanting) > self._tokenizer.chars_at_once
        )

    @property
    def is_complete(self) -> bool:
        """Whether the backend gave numbers that can be believed."""
        return self._attempt.backend is not None and not (self._attempt.wants_prompt or self._attempt.wants_completion)

    @property
    def prompt(self) -> Count:
        """The length of this attempt's prompt, once it was counted."""
        return self._attempt.prompt or Count(0, exact=False)

    def questions(self) -> Questions | None:
        """What to ask the backend before `count`; None where it is not asked."""
        return None if self._ask is None else self._ask(self.attempts)

    def count(self) -> None:
        """Count what is not known yet. For a thread, where `is_due`."""
        for one in self.attempts if self._count else ():
            self._count_one(one)
            if one.injected and one.injected_tokens is None:
                one.injected_tokens = self._tokenizer.count_again(one.injected)

    def _count_one(self, one: Attempt) -> None:
        tokenizer = self._tokenizer
        if one.wants_prompt:
            one.prompt = tokenizer.count_prompt(read_prompt(one.body))
        if one.wants_completion:
            tokens = sum(written.tokens() for written in one.texts.values())
            one.completion = Count(tokens + one.ended * tokenizer.end_tokens, tokenizer.exact and not one.loose)
            if one.thoughts:
                one.reasoning = sum(thought.tokens() for thought in one.thoughts.values())
            else:
                one.reasoning = sum(tokenizer.count(written.thinking()) for written in one.texts.values())

    def spent(self) -> int:
        """The tokens of all answers and of their prompts. What the backend did not give is counted: takes time."""
        answered = [one for one in self.attempts if one.backend is not None or one.written]
        for one in answered:
            self._count_one(one)
        return sum(max(0, tokens or 0) for tokens in self.so_far()[:2]) if answered else 0

    def so_far(self) -> tuple[int | None, int | None, bool]:
        """(prompt tokens, completion tokens, whether any is a guess) as far as they are known; counts nothing."""
        sums: list[int | None] = []
        for name in ("prompt", "completion"):
            counts = ((getattr(one, name), one.reported(name)) for one in self.attempts)
            known = [reported if count is None else count.tokens for count, reported in counts]
            given = [tokens for tokens in known if isinstance(tokens, int)]
            sums.append(sum(given) if given else None)
        return sums[0], sums[1], self.is_estimated

    def total(self) -> dict[str, Any] | None:
        """The numbers for the client, in OpenAI's form; with `"estimated": true` where any of it is a guess.

        None where the backend gave none and nothing is to be counted.
        """
        self.count()
        total: dict[str, Any] = {}
        for one in self.attempts:
            _add(total, self._numbers(one))
        return total or None

    def _numbers(self, one: Attempt) -> dict[str, Any]:
        numbers = dict(one.backend or {})
        estimated = numbers.pop("estimated", None)
        for name, counted in (("prompt_tokens", one.prompt), ("completion_tokens", one.completion)):
            if counted is not None:
                numbers[name] = counted.tokens
                estimated = estimated or (None if counted.exact else True)
        if one.completion is not None and one.reasoning:
            details = numbers.get("completion_tokens_details")
            reasoning = min(one.reasoning, one.completion.tokens)
            numbers["completion_tokens_details"] = {**(details or {}), "reasoning_tokens": reasoning}
        prompt, completion = numbers.get("prompt_tokens"), numbers.get("completion_tokens")
        counts = one.prompt is not None or one.completion is not None
        if isinstance(prompt, int) and isinstance(completion, int) and (counts or not _has_total(numbers)):
            numbers["total_tokens"] = prompt + completion
        # In the order in which everybody writes them.
        first = {name: numbers.pop(name) for name in _NAMES if name in numbers}
        return {**first, **numbers, **({} if estimated is None else {"estimated": estimated})}

    def injection(self) -> dict[str, int]:
        """How much of the prompts was the injection; empty where that is not reported. Call after `total`."""
        counts = [one.injected_tokens for one in self.attempts if one.injected_tokens is not None]
        return {"injected_prompt_tokens": sum(counts)} if counts else {}


# -- the meter that the settings ask for -------------------------------------------------------------------------------


def meter_for(settings: Settings, model: str, memory: Refusals, *, wanted: bool = True) -> UsageMeter:
    """A meter as the settings say. Raises SettingsError as `load` does.

    wanted: whether a client gets its numbers.
    """
    tokenizer, ask = _tokenizer(settings, model, memory)
    return UsageMeter(
        known=settings.usage != "count",
        count=wanted and settings.usage in {"auto", "count"},
        tokenizer=tokenizer,
        ask=ask,
        extension=settings.extension_field,
        spends=settings.token_limit is not None,
    )


def prompt_meter(settings: Settings, model: str, memory: Refusals, body: bytes) -> UsageMeter:
    """A meter of the prompt in `body` alone, by the tokenizer in force, also where answers are not counted."""
    tokenizer, ask = _tokenizer(settings, model, memory)
    meter = UsageMeter(tokenizer=tokenizer, ask=ask)
    meter.sent(body)
    return meter


def _tokenizer(
    settings: Settings, model: str, memory: Refusals
) -> tuple[Tokenizer, Callable[[list[Attempt]], Questions] | None]:
    """What counts here, and how the backend is asked first, where it is."""
    if settings.tokenizer != "upstream":
        return load(settings.tokenizer), None
    refused = memory.refuses(model, TOKENIZE)
    return APPROXIMATE, None if refused else functools.partial(ask_all, model=model, memory=memory)


def completes_whole_answers(settings: Settings) -> bool:
    """Whether whole answers to requests without tools are looked at for missing usage.

    Such requests do not ask for it, and pass untouched; unless an operator has said how tokens are to be counted.
    """
    return settings.usage == "count" or (settings.usage == "auto" and settings.tokenizer != "approximate")


# -- parts of the counts -----------------------------------------------------------------------------------------------


def _has_total(usage: dict[str, Any]) -> bool:
    """Whether the backend's total is one: xAI's is larger than the sum, by the reasoning."""
    return _is_count(usage.get("total_tokens"), least=min(1, usage.get("completion_tokens") or 0))


def _is_count(value: Any, *, least: int = 0) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _add(total: dict[str, Any], usage: dict[str, Any]) -> None:
    for name, value in usage.items():
        if isinstance(value, bool):
            total[name] = total.get(name) or value
        elif isinstance(value, int | float) and isinstance(total.get(name, 0), int | float):
            total[name] = total.get(name, 0) + value
        elif isinstance(value, dict) and isinstance(total.get(name, {}), dict):
            inner = dict(total.get(name, {}))
            _add(inner, value)
            total[name] = inner
        else:
            total[name] = value


def remarks_of(meter: UsageMeter) -> dict[str, Any]:
    """The operator's field beside the usage, with the size of the injection in the prompts."""
    return {meter.extension: injection} if meter.extension is not None and (injection := meter.injection()) else {}


def usage_chunk(head: openai.Fields, meter: UsageMeter) -> bytes:
    """The last chunk of a stream, with the head of another one; empty where there are no numbers."""
    usage = meter.total()
    if usage is None:
        return b""
    body = {name: value for name, value in head.items() if name in openai.HEAD}
    chunk: dict[str, Any] = {**body, "choices": [], "usage": usage, **remarks_of(meter)}
    return openai.event(openai.encode(chunk))


_THINK, _UNTHINK = "<think>", "</think>"


class Transcript:
    """Collects pieces. `size`: characters in all.

    kept: how many characters are kept for the end. Of a longer text the beginning is counted while more comes, block by
    block, so that neither memory nor the work at the end grows with the answer.
    """

    __slots__ = ("_kept", "_settled", "_text", "_tokenizer", "size")

    def __init__(self, tokenizer: Tokenizer, kept: int) -> None:
        self._tokenizer = tokenizer
        self._kept = kept
        self._text = StringIO()
        self._settled = 0  # tokens of text that is no longer kept
        self.size = 0

    def add(self, piece: str) -> None:
        """The model wrote `piece`."""
        if self._text.tell() > self._kept + _SETTLED:  # not of a whole answer, which is counted in a thread
            self._settle()
        self.size += len(piece)
        self._text.write(piece)

    def _settle(self) -> None:
        """Counts the text beyond what is kept."""
        text = self.text()
        seam = last_seam(text[: len(text) - self._kept])
        self._settled += self._tokenizer.count(text[:seam])
        self._text = StringIO()
        self._text.write(text[seam:])

    @property
    def is_kept(self) -> bool:
        """Whether all of it is still here."""
        return not self._settled

    def text(self) -> str:
        """The kept text."""
        return self._text.getvalue()

    def tokens(self) -> int:
        """Its tokens, counted now."""
        return self._settled + self._tokenizer.count(self.text())

    def estimate(self) -> int:
        """About its tokens."""
        return self._settled + APPROXIMATE.count(self.text())

    def thinking(self) -> str:
        """The reasoning that it begins with, in tags; the template may have written the first one."""
        if not self.is_kept:
            return ""
        text = self.text().lstrip()
        head, end, _ = text.partition(_UNTHINK)
        if text.startswith(_THINK) or (end and _THINK not in head):
            return head + end
        return ""
