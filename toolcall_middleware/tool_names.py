"""Names that models write for tools: finds the offered tool that a differently spelled name means.

Models write `functions.get_weather` (their training's namespace), `getWeather` or `get-weather`. Such a name is the
tool's whose name is the same without case, separators and prefix; where that is two tools' it means neither.
`get_weather.get_weather` is how Muse's template calls a tool without a namespace. Engines that read gpt-oss's headers
leave a token of the model's in it, and what follows (`get_weather<|channel|>commentary`); those that read GLM's leave a
closing tag (`get_weather</arg_value>`).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Collection

_PREFIX = re.compile(r"(?:(?:functions?|tools?|default_api|api)[.:/])+")
_SEPARATORS = re.compile(r"[\s._:/-]+")
_TOKEN = re.compile(r"<[|/]")
_LONGEST = 256  # characters


def meant_by(written: str, offered: Collection[str]) -> str | None:
    """The one name of `offered` that `written` means; None where it means none, or several."""
    if written in offered:
        return written
    if not written or len(written) > _LONGEST:
        return None
    if (token := _TOKEN.search(written)) is not None:
        return meant_by(written[: token.start()].rstrip(), offered)
    known = _folded(tuple(offered))
    found = known.get(_fold(written))
    if found is None and (bare := _PREFIX.sub("", written, count=1)) != written:
        found = bare if bare in offered else known.get(_fold(bare))
    if found is None:
        namespace, _, name = written.partition(".")
        found = name if namespace == name and name in offered else None
    return found or None


@functools.lru_cache(maxsize=64)
def _folded(names: tuple[str, ...]) -> dict[str, str]:
    """The names by what is left of them; empty where two are the same then."""
    known: dict[str, str] = {}
    for name in names:
        key = _fold(name)
        known[key] = "" if key in known else name
    known.pop("", None)
    return known


def _fold(name: str) -> str:
    return _SEPARATORS.sub("", name).casefold()
