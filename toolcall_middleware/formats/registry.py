"""The formats by name, each imported when it is first asked for."""

from __future__ import annotations

import difflib
import functools
import importlib
from typing import TYPE_CHECKING, Any

from ..errors import FormatError
from .base import ToolFormat

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from ..settings import Settings

ENTRY_POINTS = "toolcall_middleware.formats"

# name: (file, the format or its class in it). Files are named for ways of writing, which families share.
_BUILT_IN: dict[str, tuple[str, str]] = {
    "auto": ("auto", "Auto"),
    "json": ("fenced_json", "FencedJson"),
    "hermes": ("json_tags", "HERMES"),
    "reka": ("json_tags", "REKA"),
    "granite4": ("json_tags", "GRANITE4"),
    "ernie45": ("json_tags", "ERNIE45"),
    "longcat": ("json_tags", "LONGCAT"),
    "qwen3_coder": ("tagged", "QWEN3_CODER"),
    "step3p5": ("tagged", "STEP3P5"),
    "seed_oss": ("tagged", "SEED_OSS"),
    "minicpm5": ("tagged", "MINICPM5"),
    "llama3_json": ("json_marks", "LLAMA3_JSON"),
    "pythonic": ("pythonic", "PYTHONIC"),
    "llama4_pythonic": ("pythonic", "LLAMA4_PYTHONIC"),
    "lfm2": ("pythonic", "LFM2"),
    "olmo3": ("pythonic", "OLMO3"),
    "mistral_old": ("json_marks", "MISTRAL_OLD"),
    "mistral_v11": ("named", "MISTRAL_V11"),
    "deepseek_v3": ("named", "DEEPSEEK_V3"),
    "deepseek_v31": ("named", "DEEPSEEK_V31"),
    "deepseek_v32": ("invoked", "DEEPSEEK_V32"),
    "kimi_k2": ("named", "KIMI_K2"),
    "kimi_k3": ("invoked", "KIMI_K3"),
    "solar_open": ("named", "SOLAR_OPEN"),
    "glm45": ("tagged", "GLM45"),
    "glm47": ("tagged", "GLM47"),
    "hy_v3": ("tagged", "HY_V3"),
    "harmony": ("harmony", "HARMONY"),
    "granite": ("json_marks", "GRANITE"),
    "granite_20b_fc": ("json_marks", "GRANITE_20B_FC"),
    "phi4_mini": ("json_marks", "PHI4_MINI"),
    "internlm": ("json_marks", "INTERNLM"),
    "jamba": ("json_tags", "JAMBA"),
    "hunyuan": ("json_tags", "HUNYUAN"),
    "nemotron": ("json_tags", "NEMOTRON"),
    "xlam": ("json_marks", "XLAM"),
    "minimax_m2": ("invoked", "MINIMAX_M2"),
    "minimax_m3": ("nested", "MINIMAX_M3"),
    "step3": ("invoked", "STEP3"),
    "functiongemma": ("gemma", "FUNCTIONGEMMA"),
    "gemma4": ("gemma", "GEMMA4"),
    "cohere_command3": ("json_marks", "COHERE_COMMAND3"),
    "cohere_command4": ("json_marks", "COHERE_COMMAND4"),
    "gigachat3": ("json_marks", "GIGACHAT3"),
    "apertus": ("json_marks", "APERTUS"),
    "functionary_v31": ("named", "FUNCTIONARY_V31"),
    "functionary_v32": ("named", "FUNCTIONARY_V32"),
    "command_r": ("json_marks", "COMMAND_R"),
    "dots": ("invoked", "DOTS"),
    "gigachat35": ("invoked", "GIGACHAT35"),
    "inkling": ("json_marks", "INKLING"),
    "k2_horizon": ("tagged", "K2_HORIZON"),
    "mirothinker": ("named", "MIROTHINKER"),
    "muse_glimmer": ("invoked", "MUSE_GLIMMER"),
    "solar_open2": ("tagged", "SOLAR_OPEN2"),
}


def names() -> list[str]:
    """All names that `get` knows: the built-in ones, then those of installed packages."""
    return [*_BUILT_IN, *sorted(set(_installed()) - set(_BUILT_IN))]


@functools.cache
def get(name: str) -> ToolFormat:
    """The format of this name. Raises FormatError, which names what there is."""
    if name in _BUILT_IN:
        module, attribute = _BUILT_IN[name]
        return _made(getattr(importlib.import_module(f".{module}", __package__), attribute))
    entry = _installed().get(name)
    if entry is None:
        near = difflib.get_close_matches(name, names(), n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise FormatError(f"{name} is not a format; {hint}known: {', '.join(names())}")
    try:
        loaded = entry.load()
    except (ImportError, AttributeError) as error:
        raise FormatError(f"the format {name} ({entry.value}) cannot be loaded: {error}") from error
    return _made(loaded)


def of_settings(settings: Settings) -> ToolFormat:
    """The format that is set. Raises FormatError, which also names the setting."""
    try:
        return get(settings.format)
    except FormatError as error:
        raise FormatError(f"{settings.where('format')}: {error}") from None


def for_model(name: str, model: str) -> ToolFormat:
    """The format of this name as `model` wants it: `auto` writes the prompt as the model's family does. Formats that
    know nothing of models are what they are.
    """
    fmt = get(name)
    choose = getattr(fmt, "for_model", None)
    if choose is None:
        return fmt
    chosen: ToolFormat = choose(model)
    return chosen


def _made(found: Any) -> ToolFormat:
    """A format is an object; a class is called without arguments to get one."""
    made: ToolFormat = found() if isinstance(found, type) else found
    return made


@functools.cache
def _installed() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # it brings the email package, which nobody else asks for

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


@functools.cache
def plain() -> ToolFormat:
    """No syntax at all: for requests that offer nothing. Reasoning is still told from text."""
    from .plain import Plain

    return Plain()
