"""`template=props`: the chat template that the upstream, a llama.cpp server, shows at `/props`."""

from __future__ import annotations

import json
import logging

from ...errors import SettingsError
from ...formats.template import sources
from ...settings import Settings, hide_login
from ..http.paths import upstream_address

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
        ask(url, settings.upstream_key)
    except SettingsError as error:
        if settings.format == "template" or settings.send == "completions":
            raise
        _log.warning("%s", error)
        return settings.replace(template=None)
    return settings.replace(template=url)


def ask(url: str, key: str | None) -> None:
    """Makes the address of a llama.cpp server, with or without `/v1`, a source of templates. Raises SettingsError."""
    place = upstream_address(url, "/props")
    sources.remember(url, hide_login(place), _asked(place, key))


def _asked(url: str, key: str | None) -> object:
    from ..http.client_library import httpx
    from .upstream.connection import asking_client, reason, refusal

    body = bytearray()
    try:
        with asking_client(url, key, _SECONDS) as client, client.stream("GET", url) as answer:
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > _MAX_BYTES:
                    break
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise _error(url, f"cannot be asked: {reason(error)}") from None
    if answer.status_code != 200:
        raise _error(url, f"cannot be asked: {refusal(answer.status_code, bytes(body))}")
    if len(body) > _MAX_BYTES:
        raise _error(url, f"answers more than {_MAX_BYTES} bytes")
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        raise _error(url, "answers with what is no JSON") from None
    return value


def _error(url: str, what: str) -> SettingsError:
    return SettingsError(f"template: {hide_login(url)} {what}.")
