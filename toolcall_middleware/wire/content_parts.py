"""Content that is a list of parts where OpenAI's API has a string: Mistral's servers write thoughts so, Databricks' all
that gpt-oss says.
"""

from __future__ import annotations

from typing import Any

from .openai import NULL, Fields, raw, read_text, read_value

THOUGHTS = frozenset({"thinking", "reasoning"})
"""Types of the parts that hold a thought."""
_TEXTS = frozenset({"text", "output_text"})


def thought_in(part: Any) -> str:
    """What a part says of a thought; empty where it is no such part."""
    if not isinstance(part, dict) or part.get("type") not in THOUGHTS:
        return ""
    said = next((part[name] for name in (part["type"], "text", "summary") if name in part), None)
    if isinstance(said, list):  # text parts within
        return "".join(text for inner in said if isinstance(inner, dict) and isinstance(text := inner.get("text"), str))
    return said if isinstance(said, str) else ""


def with_plain_content(said: Fields) -> Fields:
    """A message or delta with the text of its parts as `content` and their thoughts behind its `reasoning`; `said`
    itself where its content is no list, or one with other parts.
    """
    if bytes(said.get("content", b""))[:1] != b"[":
        return said
    texts: list[str] = []
    thoughts: list[str] = []
    for part in read_value(said["content"]) or ():
        if not isinstance(part, dict):
            return said
        text = part.get("text")
        if part.get("type") in THOUGHTS:
            thoughts.append(thought_in(part))
        elif part.get("type") in _TEXTS and isinstance(text, str):
            texts.append(text)
        else:
            return said
    made = {**said, "content": raw("".join(texts)) if texts else NULL}
    if thought := "".join(thoughts):
        made["reasoning"] = raw((read_text(said.get("reasoning")) or "") + thought)
    return made
