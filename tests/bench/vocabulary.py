"""The tokenizer inside a GGUF file as a model's folder: tokenizer.json, and the chat template beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers

_CONTROL = 3


def extract(weights: Path, folder: Path) -> Path:
    """Writes the tokenizer of `weights` into `folder`. For the one pre-tokenizer that SmolLM has."""
    fields = GGUFReader(weights).fields

    def value(name: str) -> Any:
        return fields[f"tokenizer.{name}"].contents()

    if (value("ggml.model"), value("ggml.pre")) != ("gpt2", "smollm"):
        raise ValueError(f"{weights} has another tokenizer than SmolLM's")
    tokens, kinds = value("ggml.tokens"), value("ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in value("ggml.merges")]
    made = Tokenizer(models.BPE(vocab={token: at for at, token in enumerate(tokens)}, merges=merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": value("chat_template")}))
    return folder
