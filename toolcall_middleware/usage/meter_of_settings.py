"""The meter that the settings ask for."""

from __future__ import annotations

import functools
from collections.abc import Callable

import msgspec

from ..settings import Settings
from ..wire.openai import FAILURES
from .meter import Attempt, UsageMeter
from .tokenizers.base import APPROXIMATE, Tokenizer
from .tokenizers.vocabularies import load
from .upstream_tokenizer import TOKENIZE, Questions, Refusals, ask_all


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


class _Model(msgspec.Struct):
    model: str = ""


def model_of(body: bytes) -> str:
    """The model that a body names; empty when it names none."""
    try:
        return msgspec.json.decode(body, type=_Model).model
    except FAILURES:
        return ""
