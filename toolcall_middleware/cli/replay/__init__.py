"""`toolcall-middleware replay FILE`: a captured answer, read offline as the middleware reads it."""

from __future__ import annotations

import argparse

from ..command import Command, add_template, option


def _configure(parser: argparse.ArgumentParser) -> None:
    answers = "an answer of chat completions, Messages or Responses, whole or streamed"
    parser.add_argument("file", metavar="FILE", help=f"a trace, model text, or {answers}; - is stdin")
    option(parser, "--format NAME", "how to read it", default="auto")
    add_template(parser)
    option(parser, "--tools FILE", "JSON: a list of tools, or the request that was sent, of any of these APIs")
    option(parser, "--save-case FILE", "of a trace: write it as a golden case of the tests")
    parser.add_argument("--json", action="store_true", help="as JSON")


def _run(args: argparse.Namespace) -> int:
    from .run import run

    return run(args)


COMMAND = Command(
    name="replay",
    help="read a captured answer offline and print what a client would get",
    configure=_configure,
    run=_run,
    examples=(
        "toolcall-middleware replay answer.sse",
        "toolcall-middleware replay traces/20261122T101500-req_1.jsonl   # why each piece became text or a call",
        "toolcall-middleware replay text.txt --format hermes --tools request.json",
        "toolcall-middleware replay text.txt --format template --template /models/acme-9b",
        "curl -sN URL/chat/completions --json @request.json | toolcall-middleware replay -",
    ),
    exit_codes={0: "all was read", 1: "something in it is malformed"},
    order=70,
)
