"""What is known of one upstream before it is asked: its models, their names on both sides, and its settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from ....settings import Settings

_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Rename:
    """Client's models that match `pattern` are `target` to the upstream; a `*` on both sides is the same text."""

    pattern: str
    target: str

    def to_upstream(self, model: str) -> str | None:
        """The upstream's name of a client's `model`; None when this rule is about others."""
        return _carry(model, self.pattern, self.target)

    def to_client(self, model: str) -> str | None:
        """The client's name of an upstream's `model`; None when this rule gives it none."""
        return _carry(model, self.target, self.pattern)


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """One `[[upstream]]`. `settings` hold its address, key and times as `upstream_*`, and what it says of formats."""

    name: str
    models: tuple[str, ...]
    settings: Settings
    rename: tuple[Rename, ...] = ()
    headers: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    weight: float | None = None

    @property
    def holds_credentials(self) -> bool:
        """Whether its requests carry a key, a login or a header of the operator's, whatever their length or name."""
        login = urlsplit(self.settings.upstream_url or "").netloc.rpartition("@")[0]
        return bool(self.settings.upstream_key or login or self.headers)

    def serves(self, model: str) -> bool:
        """Whether requests for a client's `model` may go here."""
        return any(fnmatchcase(model, glob) for glob in self.models) or self._renamed(model) is not None

    def model_for(self, model: str) -> str:
        """What the upstream calls a client's `model`."""
        return self._renamed(model) or model

    def _renamed(self, model: str) -> str | None:
        return next((name for rule in self.rename if (name := rule.to_upstream(model)) is not None), None)

    @property
    def literal_models(self) -> tuple[str, ...]:
        """Clients' models that are named here in full."""
        names = (*self.models, *(rule.pattern for rule in self.rename))
        return tuple(dict.fromkeys(name for name in names if not _GLOB.search(name)))

    @property
    def has_globs(self) -> bool:
        """Whether the upstream's own list is needed to know its models."""
        return any(_GLOB.search(name) for name in (*self.models, *(rule.pattern for rule in self.rename)))

    def client_names(self, model: str) -> Iterator[str]:
        """Under which names clients reach the upstream's `model`, as far as globs tell."""
        for rule in self.rename:
            name = rule.to_client(model)
            if name is not None and self.model_for(name) == model:
                yield name
        if any(fnmatchcase(model, glob) for glob in self.models) and self.model_for(model) == model:
            yield model


def aliases_of(settings: Settings) -> list[Rename]:
    """The rules of `model_aliases`."""
    return [Rename(*rule.split("=", 1)) for rule in settings.model_aliases]


def _carry(model: str, pattern: str, target: str) -> str | None:
    """`model` rewritten from one pattern to the other; None when it does not match or the `*` has no value."""
    before, star, after = pattern.partition("*")
    if not star:
        return target if model == pattern and "*" not in target else None
    if len(model) < len(before) + len(after) or not (model.startswith(before) and model.endswith(after)):
        return None
    return target.replace("*", model[len(before) : len(model) - len(after)], 1)
