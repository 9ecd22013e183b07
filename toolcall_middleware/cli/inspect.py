"""`toolcall-middleware inspect TRACE...`: the inspector's page for trace files."""

from __future__ import annotations

import argparse
import contextlib
import secrets
import socket
import sys
import webbrowser
from pathlib import Path

from ..observe.traces import TraceError, read_trace
from .command import PROG, SERVED, Command, UsageError, add_template, many, number, option, read_file, template_of


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", metavar="TRACE", nargs="+", help="a trace, or a folder of traces (the last 1000)")
    option(parser, "--host", "where to listen", default="127.0.0.1")
    option(parser, "--port", "0: a free one", type=number(0, 65535), default=0)
    add_template(parser)
    parser.add_argument("--open", action="store_true", help="open it in the browser")


def _run(args: argparse.Namespace) -> int:
    import uvicorn
    from starlette.responses import PlainTextResponse

    from ..formats import registry
    from ..hosts.http.cors import is_loopback
    from ..hosts.proxy.inspector.app import Inspector
    from ..hosts.proxy.inspector.store import MAX_EXCHANGES, Store

    if not is_loopback(args.host):
        raise UsageError(f"--host {args.host}: the page is for this machine alone.")
    template = template_of(args.template)
    if template is not None:
        registry.of_template("auto", template)  # now, because it takes time, and its errors are to be read here
    store = Store()
    for path in _files(args.files)[-MAX_EXCHANGES:]:
        try:
            store.add(read_trace(read_file(str(path))))
        except TraceError as error:
            raise UsageError(f"{path}: {error}") from None
    token = secrets.token_urlsafe(24)
    config = uvicorn.Config(
        Inspector(PlainTextResponse("Not found.", 404), store, token, template_of=lambda _upstream: template),
        log_level="critical",  # a page that is open at the end is no error
        server_header=False,
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    host, family = (f"[{args.host}]", socket.AF_INET6) if ":" in args.host else (args.host, socket.AF_INET)
    try:
        listener = socket.create_server((args.host, args.port), family=family)
    except OSError as error:
        raise UsageError(f"{host}:{args.port}: {error.strerror}") from None
    with listener:
        # The socket listens before the address is printed, so that a browser can open it at once.
        address = f"http://{host}:{listener.getsockname()[1]}/inspect/{token}/"
        print(f"{PROG}: {many(len(store.entries), 'exchange')} at {address}", file=sys.stderr, flush=True)
        if args.open:
            webbrowser.open(address)
        with contextlib.suppress(KeyboardInterrupt):  # how it is ended; uvicorn hands the signal on
            uvicorn.Server(config).run(sockets=[listener])
    return 0


def _files(names: list[str]) -> list[Path]:
    found: list[Path] = []
    for name in names:
        path = Path(name)
        found += sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not found:
        raise UsageError("there is no trace (*.jsonl) in it")
    return found


COMMAND = Command(
    name="inspect",
    help="show traces in the browser: prompt, the model's text in colours, deltas and decisions",
    configure=_configure,
    run=_run,
    examples=("toolcall-middleware inspect traces/", "toolcall-middleware inspect traces/*.jsonl --open"),
    exit_codes=SERVED,
    order=75,
)
