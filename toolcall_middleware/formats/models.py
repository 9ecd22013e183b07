"""Which family a model belongs to, by its name: the format in which `auto` writes the prompt.

Reading needs no such table: `auto` reads every family. A model that is not here gets the prompt of `json`; the setting
`format` says otherwise for all models. The names stand with the families.

Sources that they cite:
[vllm] docs/features/tool_calling.md, what each --tool-call-parser is for; [recipes] docs.vllm.ai/projects/recipes
[sglang] docs/advanced_features/tool_parser, the table of parsers
[llama.cpp] docs/function-calling.md and models/templates
[card] the model's card or chat template on huggingface.co
[mistral] docs.mistral.ai and mistral-common: the version of the model's tokenizer
"""

from __future__ import annotations

import fnmatch
import functools
import re

from . import markup

_MAX_NAME = 512
_HYPHEN = re.compile(r"(?<=[a-z])-(?=[0-9])")

# Lineages whose names stand in the names of others' models: where two lineages' globs match, these decide, in this
# order. (Fine-tunes say themselves that they come before them: Family.fine_tunes.)
_FIRST = ("deepseek", "qwen", "llama", "mistral", "harmony", "kimi", "glm")


@functools.cache
def table() -> tuple[tuple[str, str], ...]:
    """Globs over the parts of a model's name, and the format of each; the first that matches decides.

    The parts are lower-cased, `_` is `-`, and no `-` stands between a letter and a digit (`llama-3.1` and `llama3.1`
    are one). A glob may begin at the part's start or behind `-`, `.`, `:` or `=`, and what follows it (size, date,
    quantisation, `:latest`, `.gguf`) is free.

    Fine-tunes come first, then models by their own names, then those that only write like a family. Within each of
    the three: the lineages of `_FIRST`, then all others; and a longer glob, which says more, before a shorter one.
    """
    rows: list[tuple[tuple[int, int, int], str, str]] = []
    for lineage in markup.lineages():
        rank = _FIRST.index(lineage) if lineage in _FIRST else len(_FIRST)
        for family in markup.lineage(lineage):
            for kind, globs in enumerate((family.fine_tunes, family.models, family.alike)):
                rows += [((kind, rank, -len(glob)), glob, family.name) for glob in globs]
    rows.sort(key=lambda row: row[:1])
    return tuple((glob, name) for _, glob, name in rows)


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    return tuple((_pattern(glob), name) for glob, name in table())


@functools.cache
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(r"(?:^|[-.:=])" + fnmatch.translate(glob + "*").removesuffix(r"\Z"))


def _parts(model: str) -> list[str]:
    """Organisations, folders and a cache's `models--org--name`, as globs know them."""
    return [_HYPHEN.sub("", part) for part in re.split(r"[/\\]|--", model.lower().replace("_", "-"))]


@functools.lru_cache(maxsize=512)
def _family(model: str) -> str | None:
    for part in reversed(_parts(model)):  # the last that is known decides
        for pattern, name in _patterns():
            if pattern.search(part):
                return name
    return None


def matches(model: str, glob: str) -> bool:
    """Whether a glob, written as those of `table`, matches a part of a model's name."""
    return len(model) <= _MAX_NAME and any(_pattern(glob).search(part) for part in _parts(model))


def family(model: str) -> str | None:
    """The format of the family that `model` (`Qwen/Qwen3-8B-AWQ`, `qwen3:8b`, a path) belongs to, None if unknown."""
    return _family(model) if len(model) <= _MAX_NAME else None
