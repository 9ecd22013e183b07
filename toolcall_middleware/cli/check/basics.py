"""Questions about plain chat: answers, usage, stop strings, and which messages a history may hold."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from .answers import Answer
from .asking import Asker
from .findings import Finding, Verdict

TOKENS = 48

Messages = list[dict[str, Any]]

HELLO: Messages = [{"role": "user", "content": "Say hello in one short sentence."}]
_SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
_CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "call_a1B2c3D4e5F6g7H8i9J0k1L2",
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
        }
    ],
}
_RESULT = {"role": "tool", "tool_call_id": "call_a1B2c3D4e5F6g7H8i9J0k1L2", "content": "18 degrees, light rain"}
_ASK = {"role": "user", "content": "What is the weather in Paris?"}
_AGAIN = {"role": "user", "content": "Thanks. And what do you say to that?"}

# Key, what it is, the messages.
HISTORIES: list[tuple[str, str, Messages]] = [
    ("history.system", "a system message", [_SYSTEM, *HELLO]),
    ("history.tool", "calls and results, content null", [_ASK, _CALL, _RESULT]),
    ("history.tool_text", "calls and results, content as text", [_ASK, {**_CALL, "content": "I look."}, _RESULT]),
    ("history.null", "content null, no calls", [_ASK, {"role": "assistant", "content": None}, _AGAIN]),
    ("history.systems", "several system messages", [_SYSTEM, {"role": "system", "content": "Be brief."}, *HELLO]),
    (
        "history.late_system", "a system message behind others",
        [_ASK, {"role": "assistant", "content": "Rain."}, {"role": "system", "content": "Be brief."}, _AGAIN],
    ),
    ("history.developer", "the role developer", [{"role": "developer", "content": "Be brief."}, *HELLO]),
    ("history.users", "two user messages in a row", [*HELLO, _AGAIN]),
    ("history.parts", "content as a list of parts",
     [{"role": "user", "content": [{"type": "text", "text": "Say hello."}]}]),
]  # fmt: skip


async def plain(asker: Asker) -> tuple[Answer, list[Finding]]:
    """A whole answer: the question that all others stand on. Asked again where the answer says how."""
    answer = await asker.ask(HELLO, tokens=TOKENS)
    for _ in range(2):
        if not asker.learn(answer):
            break
        answer = await asker.ask(HELLO, tokens=TOKENS)
    detail = "the model reasons before it answers" if asker.reasons else ""
    verdict = Verdict.YES if answer.ok else answer.verdict
    findings = [Finding("whole", "whole answers", verdict, detail if answer.ok else answer.refusal)]
    if answer.ok:
        findings.append(_usage("usage.whole", "usage in whole answers", answer))
    return answer, findings


def _usage(key: str, what: str, answer: Answer) -> Finding:
    if not answer.ok:
        return Finding(key, what, answer.verdict, answer.fault)
    usage = answer.usage or {}
    counts = [usage.get(f"{name}_tokens") for name in ("prompt", "completion", "total")]
    if all(type(count) is int for count in counts):
        return Finding(key, what, Verdict.YES)
    return Finding(key, what, Verdict.NO, "none: it is counted here" if not usage else f"it lacks counts: {usage}")


async def streaming(asker: Asker) -> list[Finding]:
    """A streamed answer, and its usage."""
    asked = await asker.ask(HELLO, tokens=TOKENS, stream=True, stream_options={"include_usage": True})
    answer = asked if asked.ok else await asker.ask(HELLO, tokens=TOKENS, stream=True)
    verdict = Verdict.YES if answer.ok else answer.verdict
    stream = Finding("stream", "streamed answers", verdict, "" if answer.ok else answer.refusal)
    if asked.ok or not answer.ok:
        return [stream, _usage("usage.stream", "usage in streams", asked)]
    detail = asked.refusal if asked.late else f"stream_options is refused, {asked.refusal}"
    return [stream, Finding("usage.stream", "usage in streams", asked.verdict, detail)]


_WORD = re.compile(r"[^\W\d_]{2,}")


def stops(said: str) -> Callable[[Asker], Awaitable[list[Finding]]]:
    """Stop strings, by a word out of `said`: what the model answers to HELLO at temperature 0."""
    words = _WORD.findall(said)
    # Not the first: an answer cut there is empty, and could be so for any reason.
    word = next((word for word in words[1:] if said.index(word) > 0), None)

    async def ask(asker: Asker) -> list[Finding]:
        return [
            await _stop(asker, "stop.whole", "stop strings, whole", said, word, stream=False),
            await _stop(asker, "stop.stream", "stop strings, streamed", said, word, stream=True),
        ]

    return ask


async def _stop(asker: Asker, key: str, what: str, said: str, word: str | None, *, stream: bool) -> Finding:
    if word is None:
        return Finding(key, what, Verdict.UNKNOWN, "the model's answer is too short to stop it in the middle")
    answer = await asker.ask(HELLO, tokens=TOKENS, stop=[word], stream=stream)
    if not answer.ok:
        return Finding(key, what, answer.verdict, answer.fault)
    if word in answer.text:
        return Finding(key, what, Verdict.NO, "the answer goes on behind the stop string")
    if not said.startswith(answer.text.rstrip()) or len(answer.text) >= len(said):
        return Finding(key, what, Verdict.UNKNOWN, "the same question got another answer")
    return Finding(key, what, Verdict.YES)


async def history(asker: Asker, key: str, what: str, messages: Messages) -> list[Finding]:
    """Whether the backend answers to such a history at all. That the model understands it is another matter."""
    answer = await asker.ask(messages, tokens=16)
    if answer.ok:
        return [Finding(key, what, Verdict.YES)]
    return [Finding(key, what, answer.verdict, answer.fault)]


def models_in(value: Any) -> list[str]:
    """The names in an answer to /models."""
    entries = value.get("data") if isinstance(value, dict) else None
    names = [entry.get("id") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return [name for name in names if isinstance(name, str) and name]
