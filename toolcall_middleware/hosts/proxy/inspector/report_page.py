"""One exchange as one HTML file for a bug report: no script, nothing from elsewhere, and all text escaped."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_FACTS = (
    "id",
    "time",
    "api",
    "model",
    "mode",
    "format",
    "status",
    "error",
    "end",
    "stream",
    "outcomes",
    "finish_reasons",
)
_STYLE = """:root { color-scheme: light dark }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 980px; margin: 24px auto; padding: 0 16px }
h1 { font-size: 19px } h2 { font-size: 15px; margin: 26px 0 6px }
pre { font: 12px/1.5 ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere; margin: 4px 0 10px;
  padding: 8px 10px; border: 1px solid light-dark(#dfe0e6, #2d313b); border-radius: 6px; unicode-bidi: isolate }
table { border-collapse: collapse } td { padding: 1px 14px 1px 0; vertical-align: top }
.call { color: light-dark(#0b6b3a, #7fd89f) } .reasoning, .markup { color: light-dark(#8a5a00, #d8a657) }
.dropped { text-decoration: line-through } .injected { color: light-dark(#5b48c2, #b9adff) }
.dim { color: light-dark(#666c78, #8c93a3) }"""


def report_page(summary: Mapping[str, Any], explained: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """The page. summary, explained and rows: as the inspector's own page gets them (`explain`)."""
    request = next((row["data"] for row in rows if row["kind"] in {"face_request", "request"}), "")
    title = escape(f"Exchange {summary.get('id') or ''}")
    facts = ((name, _fact(name, summary[name])) for name in _FACTS if summary.get(name) not in (None, "", []))
    decisions = ((row["what"], f"{row['value']} {row.get('why') or ''}") for row in rows if row["kind"] == "decision")
    notes = [one["why"] for one in (*explained["faults"], *explained["near_misses"])]
    calls = [f"{call['name']} {call['arguments']}  ({call.get('outcome') or 'read'})" for call in explained["calls"]]
    prompt = (_message(message) for message in explained["prompt"])
    sections = [
        ("Facts", _table(facts)),
        ("Decisions", _table(decisions)),
        ("What was noted", "".join(f"<pre>{_text(note)}</pre>" for note in notes)),
        ("Client asked", f"<pre>{_text(_pretty(str(request)))}</pre>" if request else ""),
        ("Prompt", "".join(prompt)),
        ("The backend's reasoning field", _pre(explained["reasoning"])),
        ("The backend's own calls", _pre(json.dumps(explained["native"], indent=2) if explained["native"] else "")),
        ("Model wrote", f"<pre>{_spans(explained)}</pre>" if explained["text"] else ""),
        ("Client's calls", "".join(_pre(call) for call in calls)),
        ("Error", _pre(explained["refused"] or explained["error"] or "")),
    ]
    body = "".join(f"<section><h2>{escape(name)}</h2>{inner}</section>\n" for name, inner in sections if inner)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>{_STYLE}</style></head>
<body><h1>{title}</h1>
<p class="dim">It holds the whole conversation. Remove what is not for others.</p>
{body}</body></html>
"""


def _fact(name: str, value: Any) -> Any:
    if name == "time":
        return dt.datetime.fromtimestamp(value, dt.UTC).isoformat(timespec="seconds")
    return ", ".join(map(str, value)) if isinstance(value, list) else value


def _text(value: object) -> str:
    """Text for the page. Characters that hide or turn text round are shown as their code points."""
    shown = _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", str(value))
    return escape(shown.encode("utf-8", "backslashreplace").decode())


def _pre(value: object) -> str:
    return f"<pre>{_text(value)}</pre>" if value else ""


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _table(pairs: Iterable[tuple[str, Any]]) -> str:
    lines = "".join(f'<tr><td class="dim">{_text(name)}</td><td>{_text(value)}</td></tr>' for name, value in pairs)
    return f"<table>{lines}</table>" if lines else ""


def _message(message: Mapping[str, Any]) -> str:
    parts = (
        f'<span class="{"injected" if part["injected"] else "own"}">{_text(part["text"])}</span>'
        for part in message["parts"]
    )
    return f'<div class="dim">{_text(message["role"])}</div><pre>{"".join(parts)}</pre>'


def _spans(explained: Mapping[str, Any]) -> str:
    text = explained["text"]
    return "".join(
        f'<span class="{escape(span["kind"])}">{_text(text[span["start"] : span["end"]])}</span>'
        for span in explained["spans"]
    )
