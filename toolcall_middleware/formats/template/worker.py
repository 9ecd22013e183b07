"""Renders a chat template in a process of its own, which the caller can end: templates are programs, maybe hostile.

Run as a file: a JSON object stands on standard input, a list of outcomes goes to standard output. With `--serve` the
first line of the input holds the template, each further one a context, and each gets a line of output; the process
ends with its input. Nothing of this package is imported, so that the process holds little.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
import sys
from typing import Any, NoReturn

# A tag of transformers' own, around what the assistant says; it renders to nothing.
_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")


def main() -> int:
    """Reads the order, renders each context, and writes `[{"text": …} or {"error": …}]`. 3: there is no jinja2."""
    serves = sys.argv[1:] == ["--serve"]
    order = json.loads(sys.stdin.buffer.readline()) if serves else json.load(sys.stdin)
    sys.path[:] = order["path"]
    _confine_memory(order["memory_bytes"])
    try:
        import jinja2
        import jinja2.sandbox
    except ImportError:
        return 3
    # Templates that llama.cpp renders append to lists of theirs; what is changed here is this process's alone.
    environment = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"], autoescape=False
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _now if serves else _same_day
    _confine_time(order["cpu_seconds"])
    try:
        template = environment.from_string(_GENERATION.sub("", order["template"]))
        if not serves:
            found = [_render(template, {**order["special"], **each}, order["characters"]) for each in order["contexts"]]
    except (jinja2.TemplateError, RecursionError, MemoryError) as error:
        found = [{"error": _said(error)}]
        template = None
    if not serves:
        json.dump(found, sys.stdout)
        return 0
    for line in sys.stdin.buffer:
        _confine_time(order["cpu_seconds"])
        context = {**order["special"], **json.loads(line)}
        outcome = found[0] if template is None else _render(template, context, order["characters"])
        sys.stdout.write(json.dumps(outcome) + "\n")
        sys.stdout.flush()
    return 0


def _render(template: Any, context: dict[str, Any], characters: int) -> dict[str, str]:
    parts: list[str] = []
    left = characters
    try:
        for part in template.generate(context):
            left -= len(part)
            if left < 0:
                return {"error": f"more than {characters} characters"}
            parts.append(part)
    except Exception as error:  # noqa: BLE001 - a template raises whatever Python can, and each is one answer
        return {"error": _said(error)}
    text = "".join(parts)
    return {"text": text.encode("utf-8", "replace").decode()}


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _confine_memory(size: int) -> None:
    """The system's own limit, where it has one; the caller's clock holds everywhere."""
    try:
        import resource
    except ImportError:
        return
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))


def _confine_time(seconds: int) -> None:
    """The same for the processor's time, from now on."""
    try:
        import resource
    except ImportError:
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + 1 + seconds
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _to_json(value: Any, indent: int | None = None, **options: Any) -> str:
    """Jinja's own would escape for HTML."""
    wanted = {name: options[name] for name in ("sort_keys", "separators") if name in options}
    return json.dumps(value, indent=indent, ensure_ascii=bool(options.get("ensure_ascii")), default=_listed, **wanted)


def _listed(value: Any) -> list[Any]:
    """What a filter such as `map` gives. It may not end."""
    return list(itertools.islice(value, 100_000))


def _raise(message: str) -> NoReturn:
    raise ValueError(message)


def _now(form: str) -> str:
    return dt.datetime.now().astimezone().strftime(form)


def _same_day(form: str) -> str:
    return dt.datetime(2026, 1, 1, tzinfo=dt.UTC).strftime(form)  # the same each time: renderings are compared


if __name__ == "__main__":
    raise SystemExit(main())
