r"""What formats share when they write a prompt: tools, calls and results as text that cannot be mistaken for markup.

Three kinds of text meet in a prompt, and each is kept from closing or forging what stands around it in its own way:
tool definitions are JSON, where a marker's first character becomes a `\u` escape (`as_data`); tool results are raw
text, where a marker gets a backslash after its opening (`neutralise`); names in attributes are escaped as XML is
(`attribute`).
"""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from ...json_schema.compact import compact_schema
from ...json_schema.examples import sample_arguments
from ...model import Tool, ToolCall, ToolResult
from .. import markup

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence


def _marker() -> re.Pattern[str]:
    return _marker_of(markup.gathered())


@functools.lru_cache(maxsize=2)
def _marker_of(known: markup.Markup) -> re.Pattern[str]:
    """How a marker of any family opens, and what must follow for it to be one. A backslash goes in between.

    What follows is looked at only as far as needed, and no marker opens before its last character: so one insertion
    never hides another marker, which is why `restore` can undo them all.
    """
    # The first look is for speed alone: `<` by the million is text.
    follow = {"<": [rf"(?=/?[\w|｜\]])/?(?:{'|'.join(known.tags)})"]}
    for escape in known.escapes:
        follow.setdefault(escape.opening, []).append(escape.follow)
    return re.compile("|".join(rf"{opening}\\*+(?={'|'.join(ways)})" for opening, ways in follow.items()))


_LINE_TAG = re.compile(r"(?P<before>^[ \t]*+<\\*+)(?=(?P<name>[A-Za-z_][\w.\-]{0,63})>)", re.MULTILINE)
_NEUTRALISED_TAG = re.compile(r"^[ \t]*<\\+[A-Za-z_]", re.MULTILINE)
NEUTRALISED_NOTE = (
    "(Markup inside the text above is shown with a backslash after its first character, as in <\\tool_call>. "
    "That backslash is not part of the data.)"
)


def neutralise(text: str) -> str:
    r"""`text` in which nothing reads as markup of any model family: `<tool_call>` becomes `<\tool_call>`.

    A marker that already has backslashes there gets one more, so `restore` gives exactly `text` back. Families without
    markers (bare JSON objects, Python calls) leave nothing to neutralise: ordinary JSON and code stay as they are.
    """
    return _marker().sub(r"\g<0>\\", text)


def neutralise_tags(text: str, names: Container[str]) -> str:
    r"""`text` in which no line begins with a tag of one of these tools: as some models call `f`, `<f>` becomes `<\f>`.

    Which tags are a call's depends on what a request offers: `neutralise` does not know them.
    """
    return _LINE_TAG.sub(lambda m: f"{m['before']}\\" if m["name"] in names else m["before"], text)


def restore(text: str) -> str:
    """The text that `neutralise` was given."""
    return _marker().sub(_without_backslash, text)


def _without_backslash(match: re.Match[str]) -> str:
    return match[0].removesuffix("\\")


def dump(value: Any) -> str:
    """Compact JSON."""
    return msgspec.json.encode(value).decode()


def dump_spaced(value: Any) -> str:
    """JSON with a space after each comma and colon, as chat templates write it."""
    return json.dumps(value, ensure_ascii=False)


def dump_indented(value: Any, *, indent: int) -> str:
    """JSON with a line for each entry, as some chat templates write schemas."""
    return json.dumps(value, ensure_ascii=False, indent=indent)


def as_data(json_text: str) -> str:
    r"""The same JSON, in which no string holds markup: `"</tools>"` becomes `"\u003c/tools>"`."""
    return _marker().sub(_escaped, json_text)


def _escaped(match: re.Match[str]) -> str:
    # Only these openings stand nowhere but inside JSON strings and cannot be the second half of an escape there.
    opening = match[0][0]
    return f"\\u{ord(opening):04x}{match[0][1:]}" if opening in "<[◁" else match[0]


_PLACEHOLDER = re.compile(r"\{(tools|example)\}")


def fill(layout: str, parts: Mapping[str, str]) -> str:
    """`layout` with its placeholders replaced, those inside the parts not."""
    return _PLACEHOLDER.sub(lambda match: parts[match[1]], layout)


def has_markup(value: Any) -> bool:
    """Whether a string somewhere in a JSON value (keys included) reads as markup of some family."""
    match value:
        case str():
            return _marker().search(value) is not None
        case list():
            return any(map(has_markup, value))
        case dict():
            return any(map(has_markup, value)) or any(map(has_markup, value.values()))
    return False


_ATTRIBUTE = str.maketrans({"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "\n": "&#10;", "\r": "&#13;"})


def attribute(text: str) -> str:
    """`text` as it may stand between double quotes in a tag."""
    return neutralise(text.translate(_ATTRIBUTE))


def describe(tool: Tool) -> dict[str, Any]:
    """What a prompt says of a tool: `{"name", "description", "parameters"}`, without an empty description."""
    entry: dict[str, Any] = {"name": tool.name}
    if tool.description:
        entry["description"] = tool.description
    entry["parameters"] = compact_schema(tool.parameters) or {"type": "object", "properties": {}}
    return entry


_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def arguments_json(arguments: str) -> str:
    """A call's arguments as a JSON value: themselves, verbatim, where they are an object, else a JSON string."""
    text = arguments.strip()
    if not text:
        return "{}"
    try:
        _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return dump(arguments)
    return text


def call_json(call: ToolCall) -> str:
    """The call as `{"name": "f", "arguments": {…}}`."""
    return f'{{"name": {dump(call.name)}, "arguments": {arguments_json(call.arguments)}}}'


def fenced_calls(calls: Sequence[ToolCall]) -> str:
    """The calls as one block of the format `json`: what every format reads, and where a family's own syntax ends."""
    entries = ", ".join(map(call_json, calls))
    return f'```json\n{{"tool_calls": [{entries}]}}\n```'


def example(tool: Tool) -> ToolCall:
    """A call of `tool` with plausible arguments; those that read as markup are left out."""
    arguments = sample_arguments(tool.parameters)
    kept = {key: value for key, value in arguments.items() if not has_markup(key) and not has_markup(value)}
    return ToolCall(tool.name, dump_spaced(kept))


def with_note(blocks: Iterable[str], results: Iterable[ToolResult]) -> str:
    """The blocks of one turn's results, one below the other; a note tells the model of backslashes, where there are."""
    text = "\n".join(blocks)
    marked = (_marker().search(result.content) or _NEUTRALISED_TAG.search(result.content) for result in results)
    return f"{text}\n{NEUTRALISED_NOTE}" if any(marked) else text
