"""`toolcall-middleware serve`: the reverse proxy, by uvicorn."""

from __future__ import annotations

import argparse
import copy
import json
import os
import secrets
import signal
import socket
import sys
import threading
import time
import webbrowser
from typing import Any

from .. import __version__
from ..settings import ENV_PREFIX, Settings
from .command import (
    PROG,
    SERVED,
    Command,
    UsageError,
    add_settings,
    add_style,
    add_upstream,
    given_settings,
    number,
    option,
    refuse_whole_path,
    share_metrics,
    to_environment,
    upstream_of,
)

_PATIENCE = 30.0  # seconds for the proxy to listen, before its page is opened
_TRY_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def _configure(parser: argparse.ArgumentParser) -> None:
    add_upstream(parser)
    option(parser, "--upstreams FILE", "TOML with several upstreams; SIGHUP reads it anew", dest="upstreams_file")
    option(parser, "--host", "where to listen", default="127.0.0.1")
    option(parser, "--port", "0: a free one", type=number(0, 65535), default=8080)
    add_style(parser)
    add_settings(parser)
    option(parser, "--workers N", "processes", type=number(1, 1024), default=1)
    levels = ("critical", "error", "warning", "info", "debug")
    written = "from which level on lines are written; those of requests are info"
    option(parser, "--log-level", written, choices=levels, default="info")
    parser.add_argument("--inspect", action="store_true", help="with a page of the exchanges, for this machine alone")
    parser.add_argument("--open", action="store_true", help="open that page in the browser")
    grace = "how long running answers may go on after a signal to stop (default: 30)"
    option(parser, "--shutdown-grace SECONDS", grace, type=number(0, 86400))
    # Its name before it was the setting's; kept for units and container files.
    option(parser, "--timeout-graceful", argparse.SUPPRESS, dest="shutdown_grace", type=number(0, 86400))


def _run(args: argparse.Namespace) -> int:
    values = _values(args)
    settings = Settings.from_env(**values)
    refuse_whole_path(settings.upstream_url, settings.where("upstream_url"))
    if settings.metrics != "off" and args.workers > 1:
        share_metrics()
    if settings.upstreams_file is not None and os.name != "nt":
        # SIGHUP asks to reload the file. Before its handler is set, it would end the process, for systemd a clean exit.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    import uvicorn

    from ..formats import registry
    from ..hosts.middleware.tenants import refuse_workers_that_count_alone
    from ..hosts.proxy.app import proxy_of, refuse_itself
    from ..hosts.proxy.server import BoundedProtocol, supervise
    from ..hosts.proxy.upstream.client import free_port
    from ..hosts.proxy.upstream.providers import with_mode

    refuse_workers_that_count_alone(settings, args.workers)
    registry.of_settings(settings)  # here, where it is still known who set it
    to_environment(values)  # because worker processes build the app anew
    # Once here, so that a mistake is one line and not a traceback of every worker.
    refuse_itself(proxy_of(settings).addresses, args.host, args.port)
    supervise(reloads=settings.upstreams_file is not None)

    settings = with_mode(settings)
    port = free_port(args.host, args.port)
    _announce(settings, args.host, port)
    if args.open:
        threading.Thread(target=_open, args=(args.host, port), daemon=True).start()
    if args.workers > 1:
        _say(_not_shared(settings, args.workers))
    uvicorn.run(
        "toolcall_middleware:create_proxy",
        factory=True,
        http=BoundedProtocol,
        host=args.host,
        port=port,
        workers=args.workers,
        log_level=args.log_level,
        lifespan="on",
        server_header=False,
        # The proxy appends its peer to x-forwarded-for, and keeps the entries already there.
        proxy_headers=False,
        access_log=False,  # the proxy writes its own
        log_config=_logging(args.log_level, as_json=settings.access_log == "json"),
        timeout_graceful_shutdown=settings.shutdown_grace,
    )
    return 0


def _values(args: argparse.Namespace) -> dict[str, Any]:
    """The settings that the command line gives, by name."""
    values = given_settings(args)
    if args.open and not args.inspect:
        raise UsageError("--open: there is a page only with --inspect.")
    if args.inspect:
        if args.workers > 1:
            raise UsageError("--inspect: each worker would have a page of its own; use --workers 1.")
        if not Settings.from_env(**values).by_hand("inspector"):
            values["inspector"] = secrets.token_urlsafe(24)
    return values


def _announce(settings: Settings, address: str, port: int) -> None:
    """Print where it listens, and who else may use that address."""
    from ..hosts.http.cors import is_loopback

    host = f"[{address}]" if ":" in address else address
    _say(_hello(settings, f"http://{host}:{port}/v1"))
    if settings.inspector is not None:
        local = host if is_loopback(address) else "127.0.0.1"
        _say(f"inspector: http://{local}:{port}/inspect/{settings.inspector}/")
    if not is_loopback(address) and not settings.api_keys:
        _say(
            f"{PROG}: warning: everybody who reaches {host}:{port} can use the upstream; "
            f"set {ENV_PREFIX}API_KEYS or listen on 127.0.0.1."
        )


def _open(address: str, port: int) -> None:
    """Opens the inspector once the proxy listens; a proxy that does not start has no page."""
    from ..hosts.http.cors import is_loopback

    host = address if is_loopback(address) else "127.0.0.1"
    until = time.monotonic() + _PATIENCE
    while time.monotonic() < until:
        try:
            socket.create_connection((host, port), 1).close()
        except OSError:
            time.sleep(0.1)
            continue
        webbrowser.open(f"http://{f'[{host}]' if ':' in host else host}:{port}/inspect")
        return


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _hello(settings: Settings, base: str) -> str:
    """Three lines: where the proxy listens, which backend it has, and what to try."""
    from ..hosts.proxy.upstream.providers import PROVIDERS
    from ._probe import describe, look

    backend = None
    if settings.upstreams_file is None and settings.upstream_api == "openai" and settings.upstream_url is not None:
        backend = look(settings.upstream_url, settings.upstream_key)
    if settings.upstreams_file is not None:
        upstream = settings.upstreams_file
    else:
        known = PROVIDERS.get(settings.upstream_api)
        url = upstream_of(settings) or (None if known is None else known.url)
        upstream = describe(url, settings.upstream_api, backend)
    model = backend.models[0] if backend is not None and backend.models else "MODEL"
    body = {"model": model, "messages": [{"role": "user", "content": "What is the weather in Paris?"}]}
    key = ' -H "authorization: Bearer $KEY"' if settings.api_keys else ""
    return (
        f"{PROG} {__version__}: {base} (mode={settings.mode} format={settings.format})\n"
        f"upstream: {upstream}\n"
        f"try: curl {base}/chat/completions{key} --json '{json.dumps({**body, 'tools': [_TRY_TOOL]})}'"
    )


def _not_shared(settings: Settings, workers: int) -> str:
    """What each of several workers has for itself."""
    most = settings.upstream_connections
    bound = "" if most is None else f" (upstream_connections: {most} each, {most * workers} in all)"
    return f"workers: {workers}, each with its own connections to upstreams{bound} and its own memory of what they can"


def _logging(level: str, *, as_json: bool = False) -> dict[str, Any]:
    """Uvicorn's own, and ours: what happens goes to standard error, a line a request to standard output.

    as_json: each line on standard error is a JSON object, as those of requests are then.
    """
    from uvicorn.config import LOGGING_CONFIG

    config: dict[str, Any] = copy.deepcopy(LOGGING_CONFIG)
    default = config["formatters"]["default"]
    default |= {
        "()": "toolcall_middleware.cli._serving.LineFormatter",
        "fmt": "%(asctime)s %(levelprefix)s %(message)s",
    }
    if os.environ.get("NO_COLOR"):  # no-color.org: set and not empty
        default["use_colors"] = False
    if as_json:
        config["formatters"]["default"] = {"()": "toolcall_middleware.observe.json_log.JsonFormatter"}
    config["formatters"]["line"] = {"format": "%(message)s"}
    config["handlers"]["line"] = {"class": "logging.StreamHandler", "formatter": "line", "stream": "ext://sys.stdout"}
    for name, handler in (("toolcall_middleware", "default"), ("toolcall_middleware.access", "line")):
        config["loggers"][name] = {"handlers": [handler], "level": level.upper(), "propagate": False}
    return config


COMMAND = Command(
    name="serve",
    help="run the reverse proxy in front of an upstream",
    configure=_configure,
    run=_run,
    description="Runs the reverse proxy. Clients speak OpenAI's API to it, with tools; the upstream need not know any.",
    examples=(
        "toolcall-middleware serve --upstream http://127.0.0.1:8000/v1",
        "toolcall-middleware serve --upstream http://127.0.0.1:11434/v1 --mode auto --port 9000",
        "toolcall-middleware serve --upstream-api anthropic --key-env ANTHROPIC_API_KEY",
        "toolcall-middleware serve --upstream http://127.0.0.1:8000/v1 --inspect   # and a page to look at",
        "toolcall-middleware serve --upstreams upstreams.toml --host 0.0.0.0 --set api_keys=alice=KEY",
    ),
    exit_codes={
        **SERVED,
        3: "the server did not start, as its log says",
        143: f"{SERVED[143]}, with several workers 0",
    },
    order=10,
)
