"""The Jinja in which chat templates are written, and a process that renders one: templates are programs, maybe hostile,
and the caller can end the process.

Run as a file: the first line of the input is a JSON object with the template and its bounds, each further line holds
contexts, and each gets a line of outcomes; the process ends with its input. Nothing of this package is imported, so the
process holds little.
"""

from __future__ import annotations

import datetime as dt
import itertools
import json
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    import jinja2

NO_JINJA = 3
"""The exit code where there is no jinja2."""
# A tag of transformers' own, around what the assistant says; it renders to nothing.
_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")


def compiled(source: str, *, immutable: bool) -> jinja2.Template:
    """A chat template in jinja2's sandbox, as engines compile it. immutable: it may not change what it is given.

    Raises ImportError and jinja2.TemplateError.
    """
    import jinja2.sandbox

    kind = jinja2.sandbox.ImmutableSandboxedEnvironment if immutable else jinja2.sandbox.SandboxedEnvironment
    environment = kind(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"], autoescape=False)
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise
    environment.globals["strftime_now"] = _now
    return environment.from_string(_GENERATION.sub("", source))


def main() -> int:
    """Reads the template, then renders the contexts of each line: `[{"text": …} or {"error": …}]`."""
    order = json.loads(sys.stdin.buffer.readline())
    sys.path[:] = order["path"]
    _confine_memory(order["memory_bytes"])
    _confine_time(order["cpu_seconds"])
    try:
        # Templates that llama.cpp renders append to lists of theirs; what is changed here is this process's alone.
        template = compiled(order["template"], immutable=False)
    except ImportError:
        return NO_JINJA
    except Exception as error:  # noqa: BLE001 - the template is the caller's, and each fault of it is one answer
        _send({"error": _said(error)})
        return 0
    for line in sys.stdin.buffer:
        _confine_time(order["cpu_seconds"])
        asked = json.loads(line)
        contexts = ({**order["special"], **each} for each in asked["contexts"])
        _send([_rendered(template, each, asked["characters"]) for each in contexts])
    return 0


def _send(outcomes: Any) -> None:
    sys.stdout.write(json.dumps(outcomes) + "\n")
    sys.stdout.flush()


def _rendered(template: jinja2.Template, context: dict[str, Any], characters: int) -> dict[str, str]:
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
    return {"text": "".join(parts).encode("utf-8", "replace").decode()}


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


if __name__ == "__main__":
    raise SystemExit(main())
