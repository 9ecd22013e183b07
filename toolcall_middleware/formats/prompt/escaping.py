r"""What formats share when they write a prompt: tools, calls and results as text that cannot be mistaken for markup.

A prompt holds three kinds of text. Each is kept from closing or forging the text around it in its own way:
tool definitions are JSON, where a marker's first character becomes a `\u` escape (`as_data`); tool results are raw
text, where a marker gets a backslash after its opening (`neutralise`); names in attributes are escaped as XML is
(`attribute`).
"""

from __future__ import annotations

import functools
import json
import re
from itertools import chain
from typing import TYPE_CHECKING, Any

import msgspec

from ...json_schema.compact import compact_schema
from ...model import Tool, ToolCall, ToolResult, ToolSet
from ...parsing.calls.harmony_messages import called
from ...parsing.events import CallStart, Text
from ...parsing.patterns import PYTHON_NAME
from ...tool_names import meant_by
from .. import markup
from ..base import ParserOptions, ToolFormat

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping


_IN_TAG = r"[^\s<=]"
"""What a marker's tag begins with, after its `<` and a slash."""
_PIECE = 16 * 1024
"""Characters that are searched at once. A search lets no other thread run, and may take a microsecond for each."""


@functools.lru_cache(maxsize=2)
def _marker_of(known: markup.Markup) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """How a marker of any family opens, and what must follow for it to be one; and its first character.

    What follows is looked at only as far as needed, and no marker opens before its last character: so one insertion
    never hides another marker, and all of them can be undone.
    """
    # The first lookahead is for speed only: text may hold a million `<`.
    follow = {"<": [rf"(?=/?{_IN_TAG})/?(?:{'|'.join(known.tags)})"]}
    for escape in known.escapes:
        follow.setdefault(escape.opening, []).append(escape.follow)
    whole = "|".join(rf"{opening}\\*+(?={'|'.join(ways)})" for opening, ways in follow.items())
    others = re.escape("".join(sorted(set(map(_first, follow)) - {"<"})))
    return re.compile(whole), re.compile(rf"<(?=/|\\|{_IN_TAG})|[{others}]")


def _first(opening: str) -> str:
    """The literal character that an opening begins with; a lookbehind may precede it."""
    found = _OPENING.match(opening)
    if found is None:
        raise ValueError(f"the opening {opening!r} does not begin with a character")
    return found[1] or found[2]


_OPENING = re.compile(r"(?:\(\?<[!=].*?\))?(?:\\(\W)|([^\\.^$*+?{}\[\]|()]))")


def _markers(text: str) -> Iterator[re.Match[str]]:
    """The markers of `text`, in order."""
    whole, first = _marker_of(markup.gathered())
    over = 0  # the end of the last match
    marker = whole.match
    for begin in range(0, len(text), _PIECE):
        end = begin + _PIECE
        found = first.finditer(text, begin, end + 1)  # the character after an opening is looked at
        for match in [match for at in found if (match := marker(text, at.start())) is not None]:
            if over <= match.start() < end:
                over = match.end()
                yield match


def _replaced(text: str, found: Iterable[re.Match[str]], by: Callable[[re.Match[str]], str]) -> str:
    """`text` with something else in the place of each match."""
    parts: list[str] = []
    over = 0
    for match in found:
        parts += (text[over : match.start()], by(match))
        over = match.end()
    return "".join([*parts, text[over:]]) if parts else text


def _at_lines(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The matches of a pattern that begins with a line and stays in it."""
    at = 0
    while at < len(text):
        end = text.rfind("\n", at, at + _PIECE) + 1
        if end:
            yield from pattern.finditer(text, at, end)
        else:  # a long line: only its beginning can match
            if (match := pattern.match(text, at)) is not None:
                yield match
            end = text.find("\n", at + _PIECE) + 1
        at = end or len(text)


_LINE_TAG = re.compile(r"(?P<before>^[ \t]*+<\\*+)(?=(?P<name>[A-Za-z_][\w.\-]{0,63})>)", re.MULTILINE)
_NEUTRALISED_TAG = re.compile(r"^[ \t]*<\\+[A-Za-z_]", re.MULTILINE)
NEUTRALISED_NOTE = (
    "(Markup inside the text above is shown with a backslash after its first character, as in <\\tool_call>. "
    "That backslash is not part of the data.)"
)


def neutralise(text: str) -> str:
    r"""`text` in which nothing reads as markup of any model family: `<tool_call>` becomes `<\tool_call>`.

    A marker that already has backslashes there gets one more: so it can be undone, and nothing is lost. Families
    without markers (bare JSON objects, Python calls) leave nothing to neutralise: ordinary JSON and code stay as they
    are.
    """
    return _replaced(text, _markers(text), lambda match: f"{match[0]}\\")


def neutralise_names(text: str, names: Collection[str], is_call: Callable[[str, int], bool] | None = None) -> str:
    r"""`text` in which nothing calls one of these tools by its name alone: a line's tag `<f>` becomes `<\f>`, a list
    `[f(` becomes `[\f(`, a member `"name": "f"` becomes `"\name": "f"`, a recipient `to=f {` becomes `to=\f {`.

    is_call: whether the text from an index on would be read as a call. Without it, any of these places is one; with it,
    data and source code stay as they are: a package that is called like a tool, a list of calls of a function.

    Which words are a tool's name depends on what a request offers. `neutralise` does not know that, and does not change
    data in which only the name shows a call: members in another order, arguments that are null.
    """
    if not names:
        return text

    def by(match: re.Match[str]) -> str:
        return f"{match['before']}\\" if match["name"] in names else match["before"]

    def unnamed(match: re.Match[str]) -> str:
        found = _calls_one_of(names, match) and (is_call is None or _is_in_call(match, is_call))
        return f"{match[0]}\\" if found else match[0]

    text = _replaced(text, _at_lines(_LINE_TAG, text), by)
    return _replaced(text, _overlapping(_CALL_BY_NAME, text), unnamed)


_MEMBER_OF_NAMES = frozenset({"name", "tool_name", "function", "tool", "recipient_name", "action"})
_GAP = r"[ \t\r\n]{0,64}"
# Letters of a key or name in JSON may be escapes, too.
_KEY = r"(?:[a-z_]|\\u[0-9A-Fa-f]{4}){4,14}"
_VALUE = rf"{_GAP}[:=]{_GAP}[\"'](?P<%s>(?:[^\"'\\\n]|\\u[0-9A-Fa-f]{{4}}|\\/){{1,256}})[\"']"
_TYPE = r"(?:[ ]{0,16}(?:commentary|analysis|json|code))"
_CALL_BY_NAME = re.compile(
    rf"[\"']\\*+(?=(?P<key>{_KEY})[\"']{_VALUE % 'member'})"
    rf"|(?<=[{{,]){_GAP}\\*+(?=(?P<bare_key>{_KEY}){_VALUE % 'bare_member'})"
    rf"|\[\\*+(?={_GAP}(?P<listed>{PYTHON_NAME}){_GAP}\()"
    rf"|\bcall\\*+(?=:(?P<marked>{PYTHON_NAME})\{{)"  # Gemma's, where its markers were dropped
    rf"|^(?P<alone>{PYTHON_NAME})\\*+(?=\n[ \t]{{0,8}}\{{)"  # Functionary's
    # gpt-oss's, where its tokens were left out. (With its namespace, `neutralise` knows it.)
    rf"|\bto=\\*+(?!functions\.)(?=(?P<recipient>[^\s<{{\\]{{1,256}}+){_TYPE}{{0,4}}+\s{{0,64}}\{{)",
    re.MULTILINE,
)
_LONGEST_LOOK = 2048
"""Characters that one match of it looks at, at most."""
_LONGEST_GAP = 64
_MOST_OBJECTS = 8
"""Braces before a member that are tried as the start of a call around it. With more of them, it counts as in a call."""
_READ = 4 * 1024
"""Characters of a place that are read as a call. What is not decided by then counts as one."""
_MOST_READ = 64 * 1024
"""Characters that are read for all results of a request. After that many, each place counts as a call."""
_ESCAPED_LETTER = re.compile(r"\\u([0-9A-Fa-f]{4})")


def _overlapping(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The matches of a pattern that looks at no more than `_LONGEST_LOOK` characters, in order."""
    over = 0
    for begin in range(0, len(text), _PIECE):
        end = begin + _PIECE
        for match in pattern.finditer(text, begin, end + _LONGEST_LOOK):
            if over <= match.start() < end:
                over = match.end()
                yield match


def _neutralised_names(text: str) -> Iterator[re.Match[str]]:
    return (match for match in _overlapping(_CALL_BY_NAME, text) if match[0].endswith("\\") and _may_call(match))


def _may_call(match: re.Match[str]) -> bool:
    key = match["key"] or match["bare_key"]
    return key is None or _plain(key) in _MEMBER_OF_NAMES


def _calls_one_of(names: Collection[str], match: re.Match[str]) -> bool:
    if not _may_call(match):
        return False
    if (recipient := match["recipient"]) is not None:
        return meant_by(called(recipient, lambda name: meant_by(name, names) is not None), names) is not None
    name = match["member"] or match["bare_member"] or match["listed"] or match["marked"] or match["alone"]
    return meant_by(_plain(name), names) is not None


def _is_in_call(match: re.Match[str], is_call: Callable[[str, int], bool]) -> bool:
    """Whether the text around the match is or may be read as a call: where its object begins is uncertain, because
    strings may hold braces too.
    """
    text, start = match.string, match.start()
    if match["key"] is None and match["bare_key"] is None:
        return is_call(text, start)
    is_first = text[max(0, start - _LONGEST_GAP) : start].rstrip().endswith("{")
    begin = start
    for number in range(_MOST_OBJECTS):
        begin = text.rfind("{", max(0, start - _LONGEST_LOOK), begin)
        if begin < 0:
            return start > _LONGEST_LOOK and not is_first
        if is_call(text, begin):
            return True
        if is_first and number:  # neither the object that begins here nor the one around it (`"function": {…}`)
            return False
    return True


class RepeatedResults:
    """Whether a part of a tool's result would be read as a call if the model repeated it: asks the reader of `fmt`, for
    the results of one request that offers tools with these names.
    """

    __slots__ = ("_fmt", "_left", "_names", "_tools")

    def __init__(self, fmt: ToolFormat, names: Collection[str]) -> None:
        self._fmt = fmt
        self._names = names
        self._tools: ToolSet | None = None
        self._left = _MOST_READ

    def is_call(self, text: str, begin: int) -> bool:
        """Whether an answer that is `text` from `begin` on begins with a call of one of the tools."""
        piece = text[begin : begin + _READ]
        if len(piece) > self._left:
            return True
        self._left -= len(piece)
        if self._tools is None:
            self._tools = ToolSet.of([Tool(name) for name in self._names])
        parser = self._fmt.parser(self._tools, ParserOptions(repair_names=True))
        events = parser.feed(piece)
        is_cut = begin + _READ < len(text)
        if not is_cut:
            events += parser.finish()
        said = "".join(event.text for event in events if isinstance(event, Text))
        return any(isinstance(event, CallStart) for event in events) or (is_cut and not said.strip())


def _plain(word: str) -> str:
    """The word with its JSON escapes decoded."""
    if "\\" not in word:
        return word
    return _ESCAPED_LETTER.sub(lambda match: chr(int(match[1], 16)), word).replace("\\/", "/")


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
    return _replaced(json_text, _markers(json_text), _escaped)


def _escaped(match: re.Match[str]) -> str:
    # Markers with these openings occur in JSON only inside strings, where none of them ends an escape.
    opening = match[0][0]
    return f"\\u{ord(opening):04x}{match[0][1:]}" if opening in "<[>|" or not opening.isascii() else match[0]


_PLACEHOLDER = re.compile(r"\{(tools|example|several)\}")


def fill(layout: str, parts: Mapping[str, str]) -> str:
    """`layout` with its placeholders replaced, those inside the parts not."""
    return _PLACEHOLDER.sub(lambda match: parts[match[1]], layout)


def has_markup(value: Any) -> bool:
    """Whether a string somewhere in a JSON value (keys included) reads as markup of some family."""
    match value:
        case str():
            return any(True for _ in _markers(value))
        case list():
            return any(map(has_markup, value))
        case dict():
            return any(map(has_markup, value)) or any(map(has_markup, value.values()))
    return False


_LONGEST_TOKEN = 128
_SYMBOL = re.compile(r"[^\w\s]")


def add_tokens(tokens: Iterable[str]) -> None:
    """Neutralise the special tokens of a tokenizer or template from now on. Tokens of plain words stay text."""
    found = [token for token in tokens if 3 <= len(token) <= _LONGEST_TOKEN and _SYMBOL.search(token)]
    new = [token for token in dict.fromkeys(found) if not has_markup(token)]
    if new:
        markup.add(markup.Markup(escapes=tuple(map(_escape_of, new))))


def _escape_of(token: str) -> markup.Escape:
    token = re.sub("^<+", "<", token)  # a match begins at the last of several
    return markup.Escape(re.escape(token[0]), re.escape(token[1:]))


_ATTRIBUTE = str.maketrans({"&": "&amp;", '"': "&quot;", "<": "&lt;", ">": "&gt;", "\n": "&#10;", "\r": "&#13;"})


def attribute(text: str) -> str:
    """`text` escaped for use between double quotes in a tag."""
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


EXAMPLE = ToolCall("TOOL_NAME", '{"ARGUMENT": "VALUE"}')
"""The form of a call in a prompt. Its tool does not exist: small models repeat a call of a real one as their answer."""


def with_note(text: str, results: Iterable[ToolResult]) -> str:
    """The text of one turn's results, and a note to the model where there are backslashes."""
    if "\\" not in text:
        return text  # nothing was neutralised
    found = (
        match
        for result in results
        for match in chain(
            _markers(result.content), _at_lines(_NEUTRALISED_TAG, result.content), _neutralised_names(result.content)
        )
    )
    return text if next(found, None) is None else f"{text}\n{NEUTRALISED_NOTE}"
