"""What a chat-completions answer has to look like for real clients, as assertions; used by tests of every room.

    answer = check_stream(body_bytes, tools={"get_weather"}, include_usage=True)
    assert answer.choices[0].calls[0].parsed == {"city": "Paris"}
    same_answer(answer, check_whole(other_bytes, tools={"get_weather"}))

Both checkers raise `RuleBrokenError` (an AssertionError), naming the event and the rule, or give back what was said.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

OWN_ID = re.compile(r"call_[a-zA-Z0-9]{24}")
FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
CUT_SHORT = frozenset({"length", "content_filter"})
ENVELOPE = frozenset({"message", "type", "param", "code"})
# Where Google's OpenAI layer, and ours for Google, has the signature of a call.
_SIGNED = {"extra_content"}


class RuleBrokenError(AssertionError):
    """A rule of the wire does not hold."""


@dataclass(slots=True)
class Call:
    """One call. `arguments` is the joined text; `fragments` are the pieces it came in (one for a whole answer)."""

    id: str
    name: str
    arguments: str = ""
    fragments: list[str] = field(default_factory=list)

    @property
    def parsed(self) -> Any:
        return json.loads(self.arguments)


@dataclass(slots=True)
class Choice:
    """One choice, joined. `content` is None where no text came; `reasoning` joins both spellings of that field."""

    index: int
    role: str | None = None
    content: str | None = None
    reasoning: str = ""
    calls: list[Call] = field(default_factory=list)
    finish_reason: str | None = None
    logprobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def named_calls(self) -> list[tuple[str, str]]:
        """The calls without their ids, as (name, arguments)."""
        return [(call.name, call.arguments) for call in self.calls]


@dataclass(slots=True)
class Answered:
    """An answer that keeps the rules. `chunks` are the decoded events without `[DONE]`, or the one whole body."""

    choices: list[Choice]
    usage: dict[str, Any] | None
    error: dict[str, Any] | None
    chunks: list[dict[str, Any]]

    @property
    def only(self) -> Choice:
        """The choice of an answer that has one."""
        _rule(len(self.choices) == 1, "there is one choice", self.choices)
        return self.choices[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What the request asked for, as far as the rules depend on it. The fields are the checkers' keywords.

    `n`: choices. `tools`: the offered names (None: any). `parallel`: whether one choice may hold several calls.
    `must_call`: each choice that was not cut short holds a call. `include_usage`: a stream must end in usage (and
    must not have any when false). `model`: what `model` must say. `own_ids`: the ids are the middleware's own (prompt
    mode, `rewrite_ids`). `legacy`: calls go out as `function_call`. `objects`: arguments are JSON objects.
    `verbatim`: they may be anything. `as_object`: they come as such, and not as text.
    `role_once`: only the first delta has a role (false where a backend repeats it and its bytes pass).
    `error`: the stream has to end in one error event. `empty_choices`: events with `choices: []` and no usage pass.
    `same_head`: id, created and model are the same in all chunks.
    """

    n: int = 1
    tools: Collection[str] | None = None
    parallel: bool = True
    must_call: bool = False
    include_usage: bool = False
    model: str | None = None
    own_ids: bool = True
    legacy: bool = False
    objects: bool = True
    verbatim: bool = False
    as_object: bool = False
    role_once: bool = True
    error: bool = False
    empty_choices: bool = False
    same_head: bool = True


def read_events(body: bytes) -> list[str]:
    """The payloads of an SSE body, `[DONE]` included. Comments are skipped; everything else must be a `data:` event.

    Event names, ids or retry fields, events of several lines, an unfinished last event and invalid UTF-8 are refused.
    """
    text = body.decode("utf-8")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    _rule(lines.pop() == "", "the body ends with a line end", text[-80:])
    payloads: list[str] = []
    open_event = False
    for line in lines:
        if line == "":
            open_event = False
        elif not line.startswith(":"):
            _rule(line.startswith("data:"), "lines are data, comments or blank", line[:80])
            _rule(not open_event, "an event has one line of data", line[:80])
            payloads.append(line.removeprefix("data:").removeprefix(" "))
            open_event = True
    _rule(not open_event, "the last event is closed by a blank line", text[-80:])
    return payloads


def check_stream(events: bytes | Iterable[str | dict[str, Any]], **expected: Any) -> Answered:
    """Checks a streamed answer: its SSE body, or payloads as text or decoded. Keywords: the fields of `Expected`."""
    payloads: list[Any] = list(read_events(events)) if isinstance(events, bytes) else list(events)
    return _StreamChecker(Expected(**expected)).check(payloads)


def check_whole(body: bytes | dict[str, Any], **expected: Any) -> Answered:
    """Checks an answer that is not streamed. Keywords: the fields of `Expected`."""
    want = Expected(**expected)
    whole = _decode(body, "the body", twice=want.as_object)
    _rule(whole.get("object") == "chat.completion", "object is chat.completion", whole.get("object"))
    _check_head(whole, want)
    _check_usage(whole.get("usage"), "usage of the body")
    raw_choices = whole.get("choices")
    _rule(isinstance(raw_choices, list) and raw_choices, "choices is a list with entries", raw_choices)
    choices = [_whole_choice(raw, want) for raw in whole["choices"]]
    _rule([choice.index for choice in choices] == list(range(want.n)), f"choices are 0..{want.n - 1} in order", choices)
    answered = Answered(choices, whole["usage"], None, [whole])
    _check_end(answered, want)
    return answered


def check_error(body: bytes | dict[str, Any]) -> dict[str, Any]:
    """Checks an error's body: exactly the OpenAI envelope, with a message. Gives the inner object."""
    whole = _decode(body, "the body")
    _rule(set(whole) == {"error"}, "an error body holds nothing but error", sorted(whole))
    return _check_envelope(whole["error"])


def same_answer(one: Answered, other: Answered) -> None:
    """Two answers say the same: text, reasoning, calls (without ids) and endings of each choice."""

    def said(answer: Answered) -> list[Any]:
        return [
            (choice.index, choice.content or None, choice.reasoning, choice.named_calls, choice.finish_reason)
            for choice in answer.choices
        ]

    _rule(said(one) == said(other), "both answers say the same", {"one": said(one), "other": said(other)})


class _StreamChecker:
    def __init__(self, want: Expected) -> None:
        self.want = want
        self.choices: dict[int, Choice] = {}
        self.chunks: list[dict[str, Any]] = []
        self.usage: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        self.where = "the stream"

    def rule(self, holds: object, rule: str, seen: object) -> None:
        _rule(holds, f"{self.where}: {rule}", seen)

    def check(self, payloads: list[Any]) -> Answered:
        done = [at for at, payload in enumerate(payloads) if payload == "[DONE]"]
        self.rule(len(done) == 1, "there is exactly one [DONE]", done)
        self.rule(done == [len(payloads) - 1], "[DONE] comes last", payloads[-2:])
        for at, payload in enumerate(payloads[:-1]):
            self.where = f"event {at}"
            self._chunk(_decode(payload, self.where, twice=self.want.as_object))
        self.where = "the stream"
        self.rule((self.error is not None) == self.want.error, "it ends in an error iff one is due", self.error)
        if self.error is None:
            self._all_there()
        choices = [self.choices[index] for index in sorted(self.choices)]
        answered = Answered(choices, self.usage, self.error, self.chunks)
        _check_end(answered, self.want)
        return answered

    def _all_there(self) -> None:
        want = self.want
        self.rule(sorted(self.choices) == list(range(want.n)), f"it has {want.n} choices", sorted(self.choices))
        for choice in self.choices.values():
            self.rule(choice.finish_reason, f"choice {choice.index} has a finish_reason", choice)
        if want.include_usage:
            self.rule(self.usage is not None, "usage comes when asked for", self.chunks[-1:])

    def _chunk(self, chunk: dict[str, Any]) -> None:
        self.rule(self.error is None, "nothing but [DONE] comes after an error", chunk)
        if "error" in chunk:
            self.error = _check_envelope(chunk["error"])
            return
        self.rule(self.usage is None, "nothing but [DONE] comes after the usage chunk", chunk)
        kind = chunk.get("object")
        self.rule(kind == "chat.completion.chunk", "object is chat.completion.chunk", kind)
        _check_head(chunk, self.want)
        if self.chunks and self.want.same_head:
            for name in ("id", "created", "model"):
                self.rule(chunk.get(name) == self.chunks[0].get(name), f"{name} stays the same", chunk.get(name))
        self.chunks.append(chunk)
        choices = chunk.get("choices")
        self.rule(isinstance(choices, list), "choices is a list", choices)
        if chunk.get("usage") is not None:
            self.rule(self.want.include_usage, "usage does not come unasked", chunk["usage"])
            self.rule(chunk["choices"] == [], "only a chunk without choices has usage", chunk)
            open_choices = [choice.index for choice in self.choices.values() if choice.finish_reason is None]
            self.rule(not open_choices, "usage comes after every finish_reason", open_choices)
            self.usage = _check_usage(chunk["usage"], self.where)
        else:
            self.rule(chunk["choices"] or self.want.empty_choices, "a chunk without usage has choices", chunk)
        for raw in chunk["choices"]:
            self._choice(raw)

    def _choice(self, raw: dict[str, Any]) -> None:
        index = raw.get("index")
        self.rule(type(index) is int and 0 <= index < self.want.n, "index of the choice is known", index)
        delta = raw.get("delta")
        self.rule(isinstance(delta, dict), "delta is an object", raw)
        first = raw["index"] not in self.choices
        choice = self.choices.setdefault(raw["index"], Choice(raw["index"]))
        self.rule(choice.finish_reason is None, "nothing comes after finish_reason", raw)
        self._role(choice, raw["delta"], first=first)
        self._text(choice, raw["delta"])
        self._calls(choice, raw["delta"])
        choice.logprobs += (raw.get("logprobs") or {}).get("content") or []
        finish = raw.get("finish_reason")
        if finish is not None:
            self.rule(finish in FINISH_REASONS, "finish_reason is known", finish)
            if choice.calls:
                full = [name for name in ("content", "tool_calls", "function_call") if raw["delta"].get(name)]
                self.rule(not full, "after calls, the delta that finishes is empty", raw)
            choice.finish_reason = finish

    def _role(self, choice: Choice, delta: dict[str, Any], *, first: bool) -> None:
        role = delta.get("role")
        if first:
            self.rule(role == "assistant", "the first delta of a choice says role assistant", delta)
            choice.role = role
        elif self.want.role_once:
            self.rule(role is None, "role comes once", delta)
        else:
            self.rule(role in {None, "assistant"}, "a repeated role is the same", delta)

    def _text(self, choice: Choice, delta: dict[str, Any]) -> None:
        for name in ("content", "reasoning", "reasoning_content"):
            text = delta.get(name)
            self.rule(text is None or isinstance(text, str), f"{name} is text or null", text)
            if text and name == "content":
                choice.content = (choice.content or "") + text
            elif text:
                choice.reasoning += text

    def _calls(self, choice: Choice, delta: dict[str, Any]) -> None:
        if self.want.legacy:
            self.rule(not delta.get("tool_calls"), "a legacy answer has no tool_calls", delta)
            if delta.get("function_call") is not None:
                self._legacy(choice, delta["function_call"])
            return
        self.rule(delta.get("function_call") is None, "function_call does not come unasked", delta)
        entries = delta.get("tool_calls") or []
        self.rule(isinstance(entries, list), "tool_calls is a list", entries)
        self.rule(all(isinstance(entry, dict) for entry in entries), "tool_calls holds objects", entries)
        indices = [entry.get("index") for entry in entries]
        # Clients that have no list yet take the first one as it is, so two entries for one call become two calls.
        self.rule(len(set(indices)) == len(indices), "a delta holds one entry a call", entries)
        for entry in entries:
            index = entry.get("index")
            self.rule(type(index) is int, "index of a call is a number", entry)
            known = len(choice.calls)
            self.rule(index <= known, "indices of calls have no gap", entry)
            self.rule(index >= known - 1, "calls do not interleave", entry)
            if index == known:
                self._opening(choice, entry)
            else:
                self._fragment(choice.calls[-1], entry)

    def _opening(self, choice: Choice, entry: dict[str, Any]) -> None:
        want = self.want
        if choice.calls:
            _check_arguments(choice.calls[-1], want, f"{self.where}, before the next call opens")
        opening = {"index", "id", "type", "function"}
        self.rule(set(entry) - _SIGNED == opening, "a call opens with index, id, type and function", entry)
        self.rule(entry["type"] == "function", "type is function", entry)
        function = entry["function"]
        self.rule(isinstance(function, dict), "function is an object", entry)
        self.rule(set(function) == {"name", "arguments"}, "a call opens with name and arguments", entry)
        self.rule(function["arguments"] == "", "a call opens with empty arguments", entry)
        choice.calls.append(Call(_check_id(entry["id"], want), _check_name(function["name"], want)))

    def _fragment(self, call: Call, entry: dict[str, Any]) -> None:
        self.rule(set(entry) == {"index", "function"}, "a later fragment has only index and function", entry)
        function = entry["function"]
        self.rule(isinstance(function, dict), "function is an object", entry)
        self.rule(set(function) == {"arguments"}, "a later fragment has only arguments", entry)
        self._more(call, function["arguments"])

    def _more(self, call: Call, arguments: Any) -> None:
        """A fragment of arguments; of an object there is one."""
        self.rule(not (self.want.as_object and call.fragments), "an object comes once", arguments)
        written = _written(arguments, self.want, self.where)
        call.arguments += written
        call.fragments.append(written)

    def _legacy(self, choice: Choice, function: dict[str, Any]) -> None:
        if not choice.calls:
            self.rule(set(function) == {"name", "arguments"}, "function_call opens with name and arguments", function)
            self.rule(function["arguments"] == "", "function_call opens with empty arguments", function)
            choice.calls.append(Call("", _check_name(function["name"], self.want)))
            return
        self.rule(set(function) == {"arguments"}, "a later fragment has only arguments", function)
        self._more(choice.calls[0], function["arguments"])


def _whole_choice(raw: dict[str, Any], want: Expected) -> Choice:
    message = raw.get("message")
    _rule(isinstance(message, dict), "message is an object", raw)
    _rule(type(raw.get("index")) is int, "index of the choice is a number", raw)
    message = raw["message"]
    choice = Choice(raw["index"], message.get("role"), message.get("content"), finish_reason=raw.get("finish_reason"))
    choice.reasoning = (message.get("reasoning") or "") + (message.get("reasoning_content") or "")
    choice.logprobs = (raw.get("logprobs") or {}).get("content") or []
    _rule(choice.role == "assistant", "role is assistant", message)
    _rule("content" in message, "content is there", message)
    _rule(choice.content is None or isinstance(choice.content, str), "content is text or null", message)
    _rule(choice.finish_reason in FINISH_REASONS, "finish_reason is known", raw.get("finish_reason"))
    if want.legacy:
        function_call = message.get("function_call")
        entries = [{"id": "", "type": "function", "function": function_call}] if function_call else []
        _rule(not message.get("tool_calls"), "a legacy answer has no tool_calls", message)
    else:
        entries = message.get("tool_calls") or []
        _rule(not message.get("function_call"), "function_call does not come unasked", message)
    for at, entry in enumerate(entries):
        # `index` is no part of a whole answer in OpenAI's API; the gateway profile adds it.
        known = set(entry) - {"index"} - _SIGNED
        _rule(known == {"id", "type", "function"}, "a call has id, type and function", entry)
        _rule(entry.get("index", at) == at, "index counts the calls", entry)
        _rule(entry["type"] == "function", "type is function", entry)
        function = entry["function"]
        _rule(isinstance(function, dict), "function is an object", entry)
        _rule(set(function) == {"name", "arguments"}, "function has name and arguments", entry)
        identity = "" if want.legacy else _check_id(entry["id"], want)
        arguments = _written(function["arguments"], want, f"call {at}")
        choice.calls.append(Call(identity, _check_name(function["name"], want), arguments, [arguments]))
    if choice.calls:
        _rule(choice.content != "", "content is null, not empty, beside calls", message)
    return choice


def _check_end(answered: Answered, want: Expected) -> None:
    """The rules on finished choices, the same for both modes."""
    identities = [call.id for choice in answered.choices for call in choice.calls if not want.legacy]
    _rule(len(set(identities)) == len(identities), "ids are unique in the answer", identities)
    for choice in answered.choices:
        where = f"choice {choice.index}"
        finish, calls = choice.finish_reason, choice.calls
        # An answer that was cut short may end inside its last call; every other call is whole.
        unfinished = finish in CUT_SHORT or (finish is None and answered.error is not None)
        for call in calls[:-1] if unfinished else calls:
            _check_arguments(call, want, where)
        if not want.parallel:
            _rule(len(calls) <= 1, f"{where} has at most one call", calls)
        if unfinished:
            continue
        due = "function_call" if want.legacy else "tool_calls"
        _rule((finish == due) == bool(calls), f"{where}: finish_reason is {due} iff there are calls", choice)
        _rule(finish in {"stop", due}, f"{where}: finish_reason fits the answer", choice)
        if want.must_call:
            _rule(calls, f"{where} has a call", choice)


def _check_head(chunk: dict[str, Any], want: Expected) -> None:
    _rule(isinstance(chunk.get("id"), str) and chunk["id"], "id is text", chunk.get("id"))
    _rule(type(chunk.get("created")) is int, "created is a number", chunk.get("created"))
    _rule(isinstance(chunk.get("model"), str), "model is text", chunk.get("model"))
    if want.model is not None:
        _rule(chunk["model"] == want.model, f"model is {want.model}", chunk["model"])


def _check_usage(usage: Any, where: str) -> dict[str, Any]:
    _rule(isinstance(usage, dict), f"{where}: usage is an object", usage)
    counts: list[int] = []
    for name in ("prompt_tokens", "completion_tokens", "total_tokens"):
        _rule(type(usage.get(name)) is int and usage[name] >= 0, f"{where}: {name} is a count", usage)
        counts.append(usage[name])
    _rule(counts[0] + counts[1] == counts[2], f"{where}: the total is the sum", usage)
    checked: dict[str, Any] = usage
    return checked


def _check_envelope(error: Any) -> dict[str, Any]:
    _rule(isinstance(error, dict), "error is an object", error)
    _rule(set(error) >= ENVELOPE, "an error has message, type, param and code", error)
    _rule(isinstance(error["message"], str) and error["message"].strip(), "an error's message says something", error)
    _rule(isinstance(error["type"], str) and error["type"], "an error has a type", error)
    _rule(error["param"] is None or isinstance(error["param"], str), "param is text or null", error)
    checked: dict[str, Any] = error
    return checked


def _check_id(identity: Any, want: Expected) -> str:
    _rule(isinstance(identity, str) and identity, "id of a call is text", identity)
    if want.own_ids:
        _rule(OWN_ID.fullmatch(identity), f"id of a call is {OWN_ID.pattern}", identity)
    checked: str = identity
    return checked


def _check_name(name: Any, want: Expected) -> str:
    _rule(isinstance(name, str) and name, "name of a call is text", name)
    if want.tools is not None:
        _rule(name in want.tools, "a call is of an offered tool", name)
    checked: str = name
    return checked


def _written(arguments: Any, want: Expected, where: str) -> str:
    if not want.as_object:
        _rule(isinstance(arguments, str), f"{where}: arguments are text", arguments)
        return str(arguments)
    _rule(isinstance(arguments, dict), f"{where}: arguments are an object", arguments)
    return json.dumps(arguments)


def _check_arguments(call: Call, want: Expected, where: str) -> None:
    if want.verbatim:
        return
    try:
        parsed = json.loads(call.arguments, parse_constant=_no_constant)
    except ValueError as error:
        raise RuleBrokenError(f"{where}: joined arguments are valid JSON ({error}): {call.arguments!r}") from None
    if want.objects:
        _rule(isinstance(parsed, dict), f"{where}: arguments are an object", call.arguments)


def _no_constant(word: str) -> None:
    # Python's json reads NaN and Infinity; JSON has no such words.
    raise ValueError(word)


def _decode(body: Any, where: str, *, twice: bool = False) -> dict[str, Any]:
    """`twice`: a key may come twice, as a model may write it."""
    if isinstance(body, bytes | str):
        try:
            body = json.loads(body, object_pairs_hook=dict if twice else _unique, parse_constant=_no_constant)
        except ValueError as error:
            raise RuleBrokenError(f"{where}: it is JSON ({error}): {body!r}") from None
    _rule(isinstance(body, dict), f"{where}: it is an object", body)
    decoded: dict[str, Any] = body
    return decoded


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    _rule(len(set(names)) == len(names), "an object has no key twice", names)
    return dict(pairs)


def _rule(holds: object, rule: str, seen: object) -> None:
    if not holds:
        raise RuleBrokenError(f"{rule}; seen: {seen!r:.600}")
