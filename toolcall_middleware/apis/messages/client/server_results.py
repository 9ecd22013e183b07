"""What another model can read of the result of a tool that Anthropic's servers ran."""

from __future__ import annotations

from typing import Any

_READ = (
    "title", "url", "text", "stdout", "stderr", "lines", "tool_name", "tool_references", "error_code", "data", "source",
    "content",
)  # fmt: skip
"""The members that hold text, or hold what does, of search results, fetched pages, runs of code and MCP's results."""


def readable(content: Any) -> str:
    """The titles, addresses, texts and outputs in the `content` of a `*_tool_result` block; empty where it has none.

    What is encrypted, or a file, says nothing.
    """
    lines: list[str] = []
    waiting = [content]
    while waiting:
        match waiting.pop():
            case str(text) if text:
                lines.append(text)
            case list(items):
                waiting += reversed(items)
            case {"type": "base64"}:
                pass
            case dict(part):
                if part.get("return_code"):
                    waiting.append(f"(exit code {part['return_code']})")
                waiting += [part[name] for name in reversed(_READ) if name in part]
    return "\n".join(lines)
