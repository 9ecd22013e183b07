"""The tokenizer that a setting names.

load("approximate") · load("tiktoken:cl100k_base") · load("hf:/models/qwen/tokenizer.json")
"""

from __future__ import annotations

import functools

from .base import APPROXIMATE, Tokenizer


@functools.lru_cache(maxsize=16)
def load(setting: str) -> Tokenizer:
    """The tokenizer that the setting names; once, for it takes up to seconds. `upstream` is not here: it is asked.

    Raises SettingsError, naming the extra or the file that is missing. Nothing is ever downloaded.
    """
    kind, _, name = setting.partition(":")
    match kind:
        case "tiktoken":
            from .tiktoken_tokenizer import load_tiktoken

            return load_tiktoken(name)
        case "hf":
            from .hf_tokenizer import load_hf

            return load_hf(name)
        case _:
            return APPROXIMATE
