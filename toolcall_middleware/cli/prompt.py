"""`toolcall-middleware prompt BODY.json`: what the model would be sent for a request."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from ..errors import ToolCallError
from ..settings import Settings
from ..wire.json_input import decode, read_fields, without_lone_surrogates
from .command import Command, UsageError, add_settings, add_style, given_settings, read_file, safe

if TYPE_CHECKING:
    from ..upstream.raw_prompt import RawPrompt

_APIS = ("chat", "messages", "responses")


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="BODY.json", help="a request of any of the three APIs; - is stdin")
    add_style(parser)
    parser.add_argument("--api", choices=_APIS, help="the API that it is a request of; without, its fields tell")
    parser.add_argument("--model", metavar="NAME", help="as if the request named this model")
    add_settings(parser)
    parser.add_argument("--json", action="store_true", help="the body for the backend, as JSON")


def _run(args: argparse.Namespace) -> int:
    from ..exchange import Ask, Exchange, Fail, Pass, Request
    from ..upstream.backend_memory import BackendMemory
    from ..wire import openai
    from .faces.requests import face_of

    settings = Settings.from_env(**given_settings(args))
    body, fields = _read(args.file)
    if args.model is not None:
        fields["model"] = args.model
        body = openai.encode(fields)
    face = face_of(fields, args.api)
    if face is not None:
        try:
            request = face.request(body)
            settings = settings.layer(dict(face.settings), f"the API {face.api}")
        except ToolCallError as refusal:
            raise UsageError(f"{args.file}: {refusal.param or refusal.code}: {refusal.message}") from None
        body = request.body
    exchange = Exchange(settings, BackendMemory(), always=face is not None)
    match exchange.receive(Request(body))[0]:
        case Fail(error):
            raise UsageError(f"{args.file}: {error.param or error.code}: {error.message}")
        case Pass():
            if not _has_messages(openai.read_value(body)):
                raise UsageError(f"{args.file}: messages: an array of objects is needed, as chat completions have it.")
            print("The request offers no tools: it goes on as it is.", file=sys.stderr)
            asked = body
        case Ask(asked, prompt):
            if prompt is not None:
                return _raw(asked, prompt, as_json=args.json)
        case action:
            raise AssertionError(action)
    if args.json:
        print(json.dumps(json.loads(asked), indent=2, ensure_ascii=False))
        return 0

    facts = exchange.facts
    for what, value, why in facts.decisions if facts is not None else ():
        print(safe(f"# {what}: {value} ({why})"))
    for line in _shown(openai.read_value(asked)):
        print(safe(line))
    return 0


def _raw(asked: bytes, prompt: RawPrompt, *, as_json: bool) -> int:
    """A prompt that the model's own template writes."""
    try:
        prompt.write()
    except ToolCallError as error:
        raise UsageError(error.message) from None
    body = json.loads(prompt.body(asked))
    if as_json:
        print(json.dumps(body, indent=2, ensure_ascii=False))
        return 0
    print(safe(body.pop("prompt")))
    print(safe("\n".join(["", "--- other fields", json.dumps(body, indent=2, ensure_ascii=False)])))
    return 0


def _read(name: str) -> tuple[bytes, dict[str, Any]]:
    """The request in the file `name`, and its fields."""
    # A lone surrogate, as some clients send it, could not be printed.
    body = without_lone_surrogates(read_file(name))
    try:
        read_fields(body)
        fields: dict[str, Any] = decode(body, None)
    except ToolCallError as error:
        raise UsageError(f"{name}: {error.message}") from None
    return body, fields


def _has_messages(fields: dict[str, Any]) -> bool:
    """Whether `messages` is a list of objects, so that it can be printed. A request without tools is not checked."""
    messages = fields.get("messages")
    return isinstance(messages, list) and all(isinstance(message, dict) for message in messages)


def _shown(body: Any) -> list[str]:
    lines: list[str] = []
    for message in body["messages"]:
        content = message.get("content")
        if not isinstance(content, str):
            content = json.dumps(content, indent=2, ensure_ascii=False)
        rest = {name: value for name, value in message.items() if name not in {"role", "content"}}
        lines += ["", f"--- {message.get('role')}", content]
        if rest:
            lines.append(json.dumps(rest, ensure_ascii=False))
    fields = {name: value for name, value in body.items() if name != "messages"}
    return [*lines, "", "--- other fields", json.dumps(fields, indent=2, ensure_ascii=False)]


COMMAND = Command(
    name="prompt",
    help="print what the model would be sent for a request",
    configure=_configure,
    run=_run,
    examples=(
        "toolcall-middleware prompt body.json",
        "toolcall-middleware prompt body.json --format hermes",
        "toolcall-middleware prompt body.json --template /models/acme-9b --set send=completions   # as it renders",
        "toolcall-middleware prompt body.json --model Qwen/Qwen3-8B --set messages=plain",
    ),
    order=65,
)
