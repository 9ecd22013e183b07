"""The APIs that an upstream can speak, as one table: how each is reached, and who translates for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from starlette.types import ASGIApp

from ....apis.foreign_call_ids import FORMS
from ....apis.google.translation import GoogleTranslation
from ....apis.messages.upstream.translation import AnthropicTranslation
from ....apis.upstream import Translation
from ....errors import SettingsError
from ....settings import Settings
from ...http.client_library import httpx
from .call_ids import CallIdCodec
from .forwarder import Forwarder
from .limits import Limits
from .translator import Translator


@dataclass(frozen=True, slots=True)
class Provider:
    """An API that is not OpenAI's.

    `url` is the address used where the operator gives none. What of `versions` an address ends in is cut off, because
    the paths of a translation begin with a version. `key_header` is the Forwarder's, `headers` are the Translator's.
    `make` gives the translation of one request. `own` are the paths of its API that a client may ask itself.
    """

    url: str
    versions: tuple[str, ...]
    key_header: str
    make: Callable[[Settings], Translation]
    headers: Mapping[str, str] = field(default_factory=dict)
    own: frozenset[str] = frozenset()


def _anthropic(settings: Settings) -> Translation:
    return AnthropicTranslation(
        default_max_tokens=settings.default_max_tokens,
        limit=settings.max_response_bytes,
    )


def _google(settings: Settings) -> Translation:
    return GoogleTranslation(limit=settings.max_response_bytes)


PROVIDERS: Mapping[str, Provider] = {
    "anthropic": Provider(
        url="https://api.anthropic.com",
        versions=("/v1",),
        key_header="x-api-key",
        # Not the newest: 2026-10-21 takes no temperature, also for the models that know one, and other vendors of this
        # API do not know it.
        headers={"anthropic-version": "2023-06-01"},
        make=_anthropic,
        own=frozenset({"/v1/messages", "/v1/messages/count_tokens"}),
    ),
    "google": Provider(
        url="https://generativelanguage.googleapis.com",
        # The second is where Google itself has an OpenAI face.
        versions=("/v1beta", "/v1beta/openai", "/v1alpha", "/v1"),
        key_header="x-goog-api-key",
        make=_google,
    ),
}


def with_mode(settings: Settings) -> Settings:
    """`settings` with `mode=native` for an upstream of another API than OpenAI's, unless the operator set a mode."""
    if settings.upstream_api not in PROVIDERS or settings.by_hand("mode"):
        return settings
    return settings.replace(mode="native")


def _without_version(address: str, versions: tuple[str, ...]) -> str:
    return next((address.removesuffix(version) for version in versions if address.endswith(version)), address)


def upstream_app(
    settings: Settings,
    *,
    forward_authorization: bool,
    headers: Mapping[str, str] | None = None,
    transport: httpx.AsyncBaseTransport | None = None,
) -> ASGIApp:
    """An app that is one upstream and speaks OpenAI's API, whatever the upstream speaks. Raises SettingsError.

    settings: `upstream_*` and limits. headers: the operator's, added to what the API wants. The others: see Forwarder.
    """
    forward = partial(
        Forwarder,
        timeout=settings.upstream_timeout,
        limits=_limits(settings),
        key=settings.upstream_key,
        forward_authorization=forward_authorization,
        headers=dict(headers or {}),
        transport=transport,
    )
    url = settings.upstream_url
    if settings.upstream_api == "openai":
        if url is None:
            raise SettingsError("There is no upstream: give --upstream URL or set TOOLCALL_UPSTREAM_URL.")
        return _with_own_ids(forward(url), settings)
    provider = PROVIDERS[settings.upstream_api]
    forwarder = forward(
        _without_version((url or provider.url).rstrip("/"), provider.versions),
        key_header=provider.key_header,
        translated=True,
    )
    return Translator(
        forwarder,
        partial(provider.make, settings),
        max_request_bytes=settings.max_request_bytes,
        upload_timeout=settings.upload_timeout,
        max_response_bytes=settings.max_response_bytes,
        headers=provider.headers,
        own=provider.own,
    )


def _limits(settings: Settings) -> Limits:
    return Limits(
        connect=settings.upstream_connect_timeout,
        total=settings.upstream_total_timeout,
        connections=settings.upstream_connections,
        retries=settings.upstream_retries,
        upload=settings.upload_timeout,
        first_byte=settings.upstream_first_byte_timeout,
    )


def _with_own_ids(app: Forwarder, settings: Settings) -> ASGIApp:
    """`app`, with call ids of the one form that the upstream takes (`upstream_ids`)."""
    if settings.upstream_ids is None:
        return app
    return CallIdCodec(
        app,
        FORMS[settings.upstream_ids],
        paths=settings.paths,
        max_request_bytes=settings.max_request_bytes,
        upload_timeout=settings.upload_timeout,
    )
