"""Tiny vocabularies, made here: for the tests of counting."""

from __future__ import annotations

import json
from pathlib import Path

import tiktoken
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def byte_level() -> Tokenizer:
    """One token a byte, `<|im_start|>` and `<|im_end|>`."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={char: at for at, char in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(name, special=True) for name in ("<|im_start|>", "<|im_end|>")])
    return made


def save_model(folder: Path, template: str | None = CHATML, **config: object) -> Path:
    """A model's folder: tokenizer.json and what lies beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    byte_level().save(str(folder / "tokenizer.json"))
    if template is not None:
        config["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def encoding(name: str = "tiny") -> tiktoken.Encoding:
    """One token a byte, and one for `Hello`."""
    ranks = {bytes([byte]): byte for byte in range(256)}
    ranks |= {text: rank for rank, text in enumerate((b"He", b"ll", b"Hell", b"Hello"), 256)}
    return tiktoken.Encoding(
        name, pat_str=r" ?\w+|[^\w\s]+|\s+", mergeable_ranks=ranks, special_tokens={"<|end|>": 999}
    )
