"""Messages of the harmony format (gpt-oss): a header with channel and recipient, then the message's text.

`<|channel|>analysis<|message|>…` is reasoning, `final` and a `commentary` without recipient are content, and a
message to `functions.f`, on whatever channel, is a call. https://cookbook.openai.com/articles/openai-harmony

Muse Glimmer has recipients for channels: a message to `self` or `developer` is reasoning, to `user` or `commentary`
content, and one to a tool holds the calls in tags of their own. Tags at the start of a message to `user` are calls too:
the recipient is wrong.

LLM-jp's tokenizer puts a space after every special token: `<|channel|> final<|message|> …`; where a header has it, the
space that begins the text is not part of the text.

A backend may leave out the special tokens: their words remain, as in `analysisWe need the weather.assistantcommentary
to=functions.lookup json{"city": "Paris"}assistantfinalIt is warm.`

Content is read as other text is: a model that was asked for calls in another syntax writes them there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ..cursor import Cursor, NotACall, Steps, TextOver, Undecided
from ..patterns import anywhere, half_of
from ..values.json_reader import quoted
from ..values.typing import Places
from .call_arguments import CallArguments

_STARTS = frozenset({"<|start|>assistant", "<|start|> assistant"})
_TO = "to="
_MESSAGE = "<|message|>"
_RECIPIENT = re.compile(r"(?:^|[\s>])to=([^\s<]+)")
# After the recipient of a call whose text follows at once: `<|message|>` is missing, or all tokens are.
_BEFORE_TEXT = re.compile(r"(?:[ ]|<\|(?:channel|constrain)\|>|commentary|analysis|json|code)*\Z")
_CHANNEL = re.compile(r"(?:<\|channel\|>|^)\s*(analysis|commentary|final)\b")
_ENDS = ("<|end|>", "<|return|>", "<|call|>", "<|eom|>", "<|eot|>", "<|end_of_text|>")
_OTHERS = ("<|start|>", "<|channel|>")
_MARKERS = (*_ENDS, *_OTHERS)
_MARKER = re.compile("|".join(map(re.escape, _MARKERS)))
# Muse Glimmer may go on to the next message without having ended the one before.
_NEXT = re.compile(rf"{_MARKER.pattern}|[ ]?to=[\w.\-]{{1,64}}<\|message\|>")
_MAX_NEXT = 96
_MAX_PROSE = 2048  # characters of text before the tags of a call in its message
# The text after a real marker: a model may also write about markers.
_AFTER_END = re.compile(r"[ \t\r\n]{0,64}(?:assistant(?=<\|channel\|>)|(?=<\|)|\Z)")
_HEADER = r"(?:[^\n<]|<\|constrain\|>){1,128}"
_AFTER_CHANNEL = re.compile(_HEADER + r"<\|message\|>")
_HEADER_END = re.compile(r"<\|(?:message|start|end|call|return)\|>|\n")
_HEADER_ALONE = re.compile(
    r"(?:<\|start\|>[ ]?assistant)?[ ]?(?:to=[\w.\-]*)?(?:<\|channel\|>[ ]?[a-z]{0,10})?[ ]?(?:to=[\w.\-]*)?[ ]?"
    r"(?:<\|constrain\|>)?[ ]{0,2}(?:json|code)?[ ]?(?:<[|a-z]{0,9})?\s*"
)
# A header without a recipient. A damaged one that holds more is text, or what it holds would be lost.
_WORDS = re.compile(r"(?:<\|\w{1,16}\|>|[\w ?\-]++)*+")
# A header that was never completed: the model started again.
_GARBLED = re.compile(r"(?:<\|\w{1,16}\|>|analysis|commentary|final|to=assistant|[\s\d?!.…,:\-])*+")
_SPACED = re.compile(r"<\|(?:start|channel)\|>[ ]")
# The role that a message begins with; after a space only known roles.
_ROLE = re.compile(r"[^\W\d_]|[ ](?:assistant|user|system|developer|tool|functions)\b")
_MAX_HEADER = 256
_NULL = re.compile(r"null(?!\w)")
_NULL_PART = re.compile(r"n(?:u(?:ll?)?)?\Z")
_SELF, _USER = "self", "user"
_NO_TOOLS = frozenset({"assistant", _USER, _SELF, "all"})
# Muse's recipients, where no tool has that name: whether a message to it is reasoning.
_RECIPIENTS = {"commentary": False, "developer": True}


class _Header(NamedTuple):
    """A complete header. to: the tool that the message calls; None where it calls none."""

    to: str | None = None
    words: bool = False
    """The call and what follows it have no tokens."""
    thinks: bool = False
    addressed: bool = False
    """It is a message to `self` or `user`, or follows one."""
    tagged: bool = False
    """Its calls may be in tags: it names no channel."""
    spaced: bool = False
    """A space follows each marker."""

    @property
    def next(self) -> re.Pattern[str]:
        """What may end the message."""
        return _NEXT if self.addressed else _MARKER


def read_message(c: Cursor, opening: str = "", *, tags: str = "") -> Steps[None]:
    """Read one message, and those that follow it without an end marker between them.

    opening: the marker that began it, if not the one in the text. tags: a tag with which calls begin in the text of a
    message to a tool; another reader reads them.
    """
    header = opening or c.opening
    while True:
        try:
            head = yield from c.ask(_header, c, header, tags)
        except TextOver:
            if header in _STARTS or (c.cut and header != _TO):
                c.sink.accept()  # the beginning of a message that never came
            raise
        if head is None:
            return
        if head.to is not None:
            yield from read_words(c, to=head.to) if head.words else _call(c, head.to, head, tags)
            return
        if not head.thinks and not head.addressed:
            yield from _space(c, head)
            c.sink.message_follows = True
            return
        if head.tagged and not head.thinks:
            j = yield from c.decided((tags,), None)
            if c.s.startswith(tags, j):
                c.i = j
                return
        m = yield from _content(c, head.next, head)
        if not m.group().endswith(_MESSAGE):
            return
        header = ""


def _content(c: Cursor, marker: re.Pattern[str], head: _Header) -> Steps[re.Match[str]]:
    """Emit the text of a message, up to `marker`. What ends it may end the answer, so its end ends a thought."""
    say = c.sink.emit_reasoning if head.thinks else c.sink.emit_text
    try:
        yield from _space(c, head)
        m = yield from _emit(c, say, marker)
    except TextOver:
        if head.thinks:
            c.sink.end_reasoning()
        raise
    if head.thinks:
        c.sink.end_reasoning()
    return m


def _space(c: Cursor, head: _Header) -> Steps[None]:
    """Skip the space that the tokenizer puts after the header."""
    if head.spaced:
        yield from c.some()
        c.i += c.s[c.i] == " "


def _header(c: Cursor, before: str, tags: str) -> _Header | None:
    """Read a header, of which `before` was read. None where it was never completed."""
    offered = c.sink.offered
    s, i = c.s, c.i
    m = _HEADER_END.search(s, i, i + _MAX_HEADER)
    header = before + s[i : m.start() if m else i + _MAX_HEADER]
    if i == len(s):
        raise Undecided
    if (name := _called_at_once(c, header)) is not None:
        c.sink.in_messages = True
        c.i = s.index("{", i)
        return _Header(name, words="<" not in header.partition("{")[0])
    if m is not None and m.group() == "<|end|>" and _GARBLED.fullmatch(header):
        if s.startswith(_OTHERS, m.end()):
            c.sink.accept()
            c.i = m.end()
            return None
        c.wait(c.begins(_OTHERS, m.end()))
    if m is None and len(s) - i < _MAX_HEADER and (not c.last or _HEADER_ALONE.fullmatch(header)):
        raise Undecided
    recipient = _RECIPIENT.search(header)
    if m is None or m.group() != _MESSAGE or (recipient is None and not _WORDS.fullmatch(header)):
        raise NotACall
    c.i = m.end()
    c.sink.in_messages = True
    channel = _CHANNEL.search(header)
    tagged = bool(tags) and channel is None
    name = recipient.group(1) if recipient else ""
    other = tags and name in _RECIPIENTS and not offered(name)
    if name and name not in _NO_TOOLS and not other:
        # A built-in tool (`to=browser.search`) is a call too; where it is not offered it goes where such calls go.
        return _Header(called(name, offered), addressed=not before, tagged=tagged)
    c.sink.accept()
    thinks = name == _SELF or _RECIPIENTS.get(name, False) or (channel is not None and channel.group(1) == "analysis")
    addressed = name in (_SELF, _USER, *_RECIPIENTS)
    return _Header(thinks=thinks, addressed=addressed, tagged=tagged, spaced=_SPACED.search(header) is not None)


def _called_at_once(c: Cursor, header: str) -> str | None:
    """The offered tool that `header` calls, if its arguments follow at once."""
    header, brace, _ = header.partition("{")
    recipient = _RECIPIENT.search(header) if brace else None
    if recipient is None or not _BEFORE_TEXT.match(header, recipient.end()):
        return None
    name = called(recipient.group(1), c.sink.offered)
    return name if c.sink.offered(name) else None


def _call(c: Cursor, name: str, head: _Header, tags: str) -> Steps[None]:
    """Read a call after its header: its text must be JSON, or the tool must take plain text."""
    c.named = name, None
    if not (yield from c.ask(_before_call, c, name, head, tags)):
        c.named = None
        c.sink.accept()
        return
    if _is_json(c.s, c.i):
        yield from c.call(CallArguments(c.s[c.i], _ENDS, c.sink.arguments))
    elif c.s[c.i] == "<":
        c.say("{}")
        c.end()
    else:
        # As for gpt-oss's own `python`.
        c.say(f'{{"{quoted(_text_key(c, name))}": "')
        try:
            yield from _space(c, head)
            yield from _emit(c, lambda text: c.say(quoted(text)), head.next)
        except TextOver:
            if c.cut:
                raise
        c.end('"}', repaired=True, closing=_ENDS)
    yield from c.closer(_ENDS)


def _before_call(c: Cursor, name: str, head: _Header, tags: str) -> bool:
    """Go to a call's arguments, or to the marker that shows that it has none. False: to tags, or text before."""
    c.i = j = c.after_space()
    s = c.s
    if j == len(s):
        raise Undecided
    if s[j] == "<":
        if tags and s.startswith(tags, j):
            return False
        if not _MARKER.match(s, j):
            c.wait(c.begins((*_MARKERS, tags), j))
            raise NotACall
    elif head.tagged and not _is_json(s, j) and _tags_follow(c, j, tags):
        return False
    else:
        c.wait(_NULL_PART.match(s, j))
        if not (_is_json(s, j) or _text_key(c, name)):
            raise NotACall
    return True


def _tags_follow(c: Cursor, j: int, tags: str) -> bool:
    """Whether a call's tags follow the text at `j` in this message."""
    s = c.s
    end = _MARKER.search(s, j, j + _MAX_PROSE)
    found = s.find(tags, j, end.start() if end else j + _MAX_PROSE) >= 0
    c.wait(not found and end is None and len(s) - j < _MAX_PROSE)
    return found


def _text_key(c: Cursor, name: str) -> str:
    """The parameter that takes the text of a message; empty where the tool takes something else, or more."""
    schema = c.sink.schema(name) or {}
    properties, required = schema.get("properties"), schema.get("required")
    keys = [str(key) for key in properties] if isinstance(properties, dict) else []
    key = keys[0] if keys else "input"
    alone = not isinstance(required, list) or all(other == key for other in required)
    return key if alone and "string" in Places(schema).argument(key) else ""


def _emit(c: Cursor, say: Callable[[str], None], marker: re.Pattern[str]) -> Steps[re.Match[str]]:
    """Emit a message's text up to a `marker` that ends it. An end marker is read, the beginning of a header is not."""
    while True:
        yield from c.some()
        s, m, sure = c.s, marker.search(c.s, c.i), True
        try:
            while m is not None and not _ends(c, m):
                m = marker.search(s, m.end())
        except Undecided:
            sure = False
        half = half_of(marker).search(s, max(c.i, len(s) - _MAX_NEXT))
        keep = m.start() if m is not None else len(s) if c.last or half is None else half.start()
        if keep > c.i:
            say(s[c.i : keep])
        c.i = keep
        if m is not None and sure:
            c.i = m.end() if m.group() in _ENDS else keep
            return m
        yield from c.more()


def _ends(c: Cursor, m: re.Match[str]) -> bool:
    """Whether a marker in the text is a real one, by the text after it."""
    marker = m.group()
    if marker not in _MARKERS:
        return True  # a header
    pattern = _AFTER_END if marker in _ENDS else _ROLE if marker == "<|start|>" else _AFTER_CHANNEL
    rest = c.s[m.end() : m.end() + 256]
    c.wait(half_of(pattern).match(rest))
    return pattern.match(rest) is not None


def _is_json(s: str, j: int) -> bool:
    return s[j] in "{[\"'" or _NULL.match(s, j) is not None


# -- messages without their tokens ---------------------------------------------------------------------------------

_ANALYSIS, _FINAL = "analysis", "final"
_CHANNELS = (_ANALYSIS, "commentary", _FINAL)
_ASSISTANT = "assistant"
_NEXT_WORDS = re.compile(rf"{_ASSISTANT}(?:(?:{'|'.join(_CHANNELS)})| to=functions\.)")
_FIRST_WORDS = re.compile(rf"{_NEXT_WORDS.pattern}|{'|'.join(_CHANNELS)}")
_WORD_ENDS = tuple(_ASSISTANT + channel for channel in _CHANNELS)
_HEAD = anywhere(rf"(?:{_ASSISTANT})?(?P<channel>{'|'.join(_CHANNELS)})?")
# The recipient may precede the channel. Nothing separates the two, nor a type.
_CALL = re.compile(r"[ ]?to=(?P<to>[^\s<{]{1,256})[ ]{0,2}(?:commentary|analysis)?[ ]{0,2}(?:json|code)?\s{0,64}(?=\{)")
_GLUED = ("json", "code", "commentary", "analysis")
_CALL_BEGUN = re.compile(r"[ ]?to=")
_JSON = re.compile(r"[ ](?:json|code)[ ]?(?=\{)")
_RESULT = re.compile(r"functions\.[^\s<]{1,256} to=assistant")
_MAX_GAP = 64
_MAX_WORDS = 512
_NAMESPACE = "functions."


def called(recipient: str, offered: Callable[[str], bool]) -> str:
    """The tool that a recipient names. Where a token is missing, the word after the name may be glued to it."""
    name = written = recipient.removeprefix(_NAMESPACE)
    while name and not offered(name):
        name = next((name.removesuffix(word) for word in _GLUED if name.endswith(word)), "")
    return name or written


def read_words(c: Cursor, *, strict: bool = False, to: str = "") -> Steps[None]:
    """Read the messages of an answer from the header of one on, up to the final one or to text that is no message.

    strict: if the first one names a recipient, it is a message only where it begins a call of an offered tool.
    to: the recipient of a call whose header has been read.
    """
    while True:
        channel = ""
        if not to:
            channel, to = yield from _words_header(c, strict=strict)
            strict = False
        if to:
            arguments = CallArguments(c.s[c.i], _WORD_ENDS, c.sink.arguments)
            c.named = called(to, c.sink.offered), None
            yield from c.call(arguments)
            to = ""
            if not (yield from c.ask(_another, c)):
                return
            continue
        c.sink.accept()
        if channel == _FINAL or (channel != _ANALYSIS and (yield from _says_json(c))):
            c.sink.message_follows = True
            return
        yield from _content(c, _NEXT_WORDS, _Header(thinks=channel == _ANALYSIS))
        c.sink.consumed(c.taken())
        c.sink.hold()


def _words_header(c: Cursor, *, strict: bool) -> Steps[tuple[str, str]]:
    """Read a header: the message's channel, or the recipient of a call. Raises NotACall where there is no message."""
    while True:
        yield from c.some()
        s = c.s[c.i : c.i + _MAX_WORDS]
        head = _HEAD.match(s)
        at = head.end()
        call = _CALL.match(s, at)
        half = call is None and half_of(_CALL).match(s, at) is not None
        begun = half and _CALL_BEGUN.match(s, at)
        if not begun and (call or c.last or not (half or half_of(_FIRST_WORDS).match(s))):
            break
        try:
            yield from c.more()
        except TextOver:
            if begun and c.cut:
                c.sink.accept()  # a message that never came
            raise
    if call is not None:
        if strict and not c.sink.offered(called(call["to"], c.sink.offered)):
            raise NotACall
        c.i += call.end()
        return "", call["to"]
    if not head["channel"] or s.startswith((" to=", "to="), at):
        raise NotACall
    c.i += at
    return head["channel"], ""


def _says_json(c: Cursor) -> Steps[bool]:
    """Whether the header of a commentary says that its text is JSON."""
    yield from c.some()
    m = yield from c.match(_JSON)
    c.i = c.i if m is None else m.end()
    return m is not None


def _another(c: Cursor) -> bool:
    """Whether another message follows a call."""
    s, j = c.s, c.after_space(_MAX_GAP)
    if c.i == len(s):
        raise Undecided
    if _NEXT_WORDS.match(s, j):
        c.i = j
        return True
    result = c.found(_RESULT, j)
    if result is not None:
        c.sink.stopped_at = result.group()
        c.i = result.end()
        return False
    c.wait(half_of(_NEXT_WORDS).match(s, j))
    return False
