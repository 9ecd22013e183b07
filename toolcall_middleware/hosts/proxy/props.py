"""`template=props`: the chat template that the upstream, a llama.cpp server, tells of itself at `/props`."""

from __future__ import annotations

import json
import logging

from ...errors import SettingsError
from ...formats.template import sources
from ...settings import Settings, hide_login

_log = logging.getLogger(__name__)
_SECONDS = 5.0
_MAX_BYTES = 8 << 20


def with_template(settings: Settings) -> Settings:
    """The settings with the place of the upstream's template for `props`, asked for now.

    Where it cannot be had, `format=auto` goes on without it, and the log says why. Raises SettingsError for
    `format=template` and `send=completions`.
    """
    if settings.template != sources.PROPS or settings.upstream_url is None:
        return settings
    url = settings.upstream_url
    try:
        sources.remember(url, ask(url, settings.upstream_key))
    except SettingsError as error:
        if settings.format == "template" or settings.send == "completions":
            raise
        _log.warning("%s", error)
        return settings.replace(template=None)
    return settings.replace(template=url)


def ask(url: str, key: str | None) -> sources.Checkpoint:
    """The checkpoint of the llama.cpp server at this address, with or without `/v1`. Raises SettingsError."""
    place = f"{url.rstrip('/').removesuffix('/v1')}/props"
    return sources.of_props(hide_login(place), _asked(place, key))


def _asked(url: str, key: str | None) -> object:
    from ..http.client_library import httpx

    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    body = bytearray()
    try:
        with httpx.stream("GET", url, headers=headers, timeout=_SECONDS) as answer:
            answer.raise_for_status()
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > _MAX_BYTES:
                    raise SettingsError(f"template: {hide_login(url)} answers more than {_MAX_BYTES} bytes.")
        value: object = json.loads(body)
    except (httpx.HTTPError, ValueError, RecursionError) as error:
        raise SettingsError(f"template: {hide_login(url)} cannot be asked: {type(error).__name__}.") from None
    return value
