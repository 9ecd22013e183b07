"""`tokenizer=hf:PATH_OR_NAME`: a `tokenizer.json`, its folder, or a model in Hugging Face's cache on this machine."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import SettingsError
from ...installed import install_command
from ...settings import library_folder
from .base import Count, CountCache, Prompt, blocks, count_messages
from .chat_template import ChatTemplate, TemplateError, read_template

if TYPE_CHECKING:
    import tokenizers

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?")


class HfTokenizer:
    """Counts with a model's own vocabulary and, where it lies beside it, its chat template."""

    chars_at_once = 1 << 12
    exact = True
    end_tokens = 1

    def __init__(
        self, tokenizer: tokenizers.Tokenizer, template: ChatTemplate | None = None, folder: Path | None = None
    ) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self._template = template
        self.checkpoint = None if folder is None or template is None else str(folder)
        special = [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special]
        special.sort(key=len, reverse=True)
        self.special_tokens: Sequence[str] = special
        self._special = re.compile("|".join(map(re.escape, special))) if special else None
        # Vocabularies that put a space before each text that they are given count less in one piece.
        begin = special[0] if special else ""
        probe = (f"{begin}Hello there, my friend.", f"{begin}Bye", " for now, and all the best")
        self._adds_up = self._one("".join(probe)) == sum(map(self._one, probe))
        self._cache = CountCache(self._one)

    def _one(self, text: str) -> int:
        # The one for batches lets other threads run.
        try:
            encoded = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        except TypeError:  # a lone surrogate is no UTF-8
            text = text.encode("utf-8", "replace").decode()
            encoded = self._tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return len(encoded[0])

    def count(self, text: str, /) -> int:
        return sum(map(self._one, blocks(text))) if self._adds_up else self._one(text)

    def count_again(self, text: str, /) -> int:
        if not self._adds_up:
            return self._cache.count(text)
        return sum(self._cache.count(block) for part in self._parts(text) for block in blocks(part))

    def _parts(self, text: str) -> Iterator[str]:
        """Cut before each special token: it ends what stands before, and messages begin with one in most templates."""
        begin = 0
        for found in self._special.finditer(text) if self._special is not None else ():
            if found.start() > begin:
                yield text[begin : found.start()]
                begin = found.start()
        if begin < len(text):
            yield text[begin:]

    def count_prompt(self, prompt: Prompt, /) -> Count:
        # A picture is not in the text that a template makes.
        if self._template is not None and all(isinstance(each["content"], str) for each in prompt.messages):
            try:
                return Count(self.count_again(self._template.render(prompt)), exact=True)
            except TemplateError:
                pass
        return Count(count_messages(prompt, self.count_again).tokens, exact=False)


def load_hf(name: str) -> HfTokenizer:
    """The tokenizer at a path, or of a model in the cache. Raises SettingsError; never downloads."""
    try:
        import tokenizers
    except ImportError:
        message = f"tokenizer: tokenizers is not installed: {install_command('hf')}."
        raise SettingsError(message) from None
    file = _file(name)
    try:
        tokenizer = tokenizers.Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001 - the library raises just that
        raise SettingsError(f"tokenizer: {file} cannot be read: {error}.") from None
    return HfTokenizer(tokenizer, read_template(file.parent), file.parent)


def _file(name: str) -> Path:
    path = Path(name).expanduser()
    if path.is_dir():
        path /= "tokenizer.json"
    if path.is_file():
        return path
    if path.is_absolute() or path.suffix == ".json" or not _NAME.fullmatch(name):
        raise SettingsError(f"tokenizer: there is no file {path}.")
    file = in_hub_cache(name, "tokenizer.json")
    if file is None:
        raise SettingsError(
            f"tokenizer: there is neither a path {name!r} nor a tokenizer.json of that model in {hub_cache()}, and "
            "nothing is downloaded. Give the path of a tokenizer.json, or fetch the model's first."
        )
    return file


def in_hub_cache(name: str, file: str) -> Path | None:
    """A file of the newest snapshot of a model in Hugging Face's cache; None where it is not there.

    name: as the hub has it, `organisation/model`; anything else is not looked for.
    """
    if not _NAME.fullmatch(name):
        return None
    model = hub_cache() / f"models--{name.replace('/', '--')}"
    main = model / "refs" / "main"
    revision = main.read_text("utf-8").strip() if main.is_file() else ""
    named = [model / "snapshots" / revision / file] if revision else []
    found = [*named, *sorted(model.glob(f"snapshots/*/{file}"))]
    return next((each for each in found if each.is_file()), None)


def hub_cache() -> Path:
    """The folder of Hugging Face's cache."""
    folder = library_folder("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")
    if folder is not None:
        return folder
    home = library_folder("HF_HOME")
    if home is not None:
        return home / "hub"
    cache = library_folder("XDG_CACHE_HOME")
    return (cache if cache is not None else Path.home() / ".cache") / "huggingface" / "hub"
