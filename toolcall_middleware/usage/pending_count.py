"""Counting that must be waited for: long texts in a thread, and the backend's own `/tokenize`."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ..settings import Settings
from ..wire.openai import FAILURES
from .meter import UsageMeter
from .tokenizers.base import APPROXIMATE, Count, Tokenizer
from .tokenizers.vocabularies import load
from .upstream_tokenizer import TOKENIZE, Questions, Refusals, ask_all


@dataclass(frozen=True, slots=True)
class PendingCount:
    """What is to be waited for before an answer can end. A host runs the questions, then `count` in a thread."""

    meter: UsageMeter
    model: str
    memory: Refusals

    def questions(self) -> Questions | None:
        """What to ask the backend; None where it is not to be asked."""
        return ask_all(self.meter, self.model, self.memory) if self.meter.is_asked else None

    def count(self) -> None:
        """The rest, here: takes time."""
        self.meter.count()

    @property
    def prompt(self) -> Count:
        """The length of the prompt, once it was counted."""
        counted = self.meter.attempts[-1].prompt
        return Count(0, exact=False) if counted is None else counted


def meter_for(
    settings: Settings,
    model: str,
    memory: Refusals,
    *,
    wanted: bool = True,
) -> UsageMeter:
    """A meter as the settings say. Raises SettingsError as `load` does.

    wanted: whether a client gets its numbers.
    """
    tokenizer, asked = _tokenizer(settings, model, memory)
    return UsageMeter(
        known=settings.usage != "count",
        count=wanted and settings.usage in {"auto", "count"},
        tokenizer=tokenizer,
        asked=asked,
        extension=settings.extension_field,
        spends=settings.token_limit is not None,
    )


def prompt_count(settings: Settings, model: str, memory: Refusals, body: bytes) -> PendingCount:
    """The count of the prompt in `body` alone, by the tokenizer in force, also where answers are not counted."""
    tokenizer, asked = _tokenizer(settings, model, memory)
    meter = UsageMeter(tokenizer=tokenizer, asked=asked)
    meter.sent(body)
    return PendingCount(meter, model, memory)


def _tokenizer(settings: Settings, model: str, memory: Refusals) -> tuple[Tokenizer, bool]:
    """What counts here, and whether the backend is asked first."""
    if settings.tokenizer == "upstream":
        return APPROXIMATE, not memory.refuses(model, TOKENIZE)
    return load(settings.tokenizer), False


def completes_whole_answers(settings: Settings) -> bool:
    """Whether whole answers to requests without tools are looked at for missing usage.

    Such requests do not ask for it, and pass untouched; unless an operator has said how tokens are to be counted.
    """
    return settings.usage == "count" or (settings.usage == "auto" and settings.tokenizer != "approximate")


class _Model(msgspec.Struct):
    model: str = ""


def model_of(body: bytes) -> str:
    """The model that a body names; empty when it names none."""
    try:
        return msgspec.json.decode(body, type=_Model).model
    except FAILURES:
        return ""
