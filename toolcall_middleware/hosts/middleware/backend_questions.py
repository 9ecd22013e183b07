"""Questions to the backend beside the client's request, asked through the app itself: how many tokens a text has
(`/tokenize`), whether tools reach its models (`mode=auto`), and how large its window is (`tools_budget=auto`). Long
texts are counted in a thread.

Also the usage of whole answers to requests without tools, which pass unchanged where they have it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from typing import TypeVar
from weakref import WeakValueDictionary

from starlette.types import ASGIApp, Receive, Scope, Send

from ...apis.passage import PASSAGE
from ...settings import Settings
from ...upstream.backend_memory import BackendMemory, BackendReply, Evidence, PendingProof
from ...usage.meter import UsageMeter, meter_for
from ...usage.tap import may_lack_numbers, with_numbers, without_numbers
from ...usage.upstream_tokenizer import Question
from ...wire import openai
from ..http.answer import Answer, Collected, Reads, TooLongError
from ..http.bodies import Given, offloaded
from ..http.head import normal_path, scope_for_body, without
from ..http.request_record import RECORD, record_of

_COUNT_SECONDS = 2.0
"""For all questions about one answer, whose end waits for them, and for that after a template alone."""
_PROOF_SECONDS = 20.0
"""For all questions about one model, which may have to be loaded first: requests wait for them."""
_ATTEMPTS = 2
_PASSING = frozenset({502, 503, 504})
"""Of a proxy: its upstream may just have closed an old connection, which says nothing of what it can do."""
_MAX_ANSWER = 16 << 20
_MAX_WHOLE = 8 << 20
_log = logging.getLogger("toolcall_middleware")

_Reply = TypeVar("_Reply")
_Found = TypeVar("_Found")


async def wait_for(meter: UsageMeter, app: ASGIApp, scope: Scope, paths: tuple[str, ...]) -> None:
    """Count what the meter has to count. scope: of the client's request; paths: the suffixes that are intercepted."""
    loop = asyncio.get_running_loop()
    end = loop.time() + _COUNT_SECONDS

    async def counted(question: Question) -> bytes | None:
        asked = scope_of(scope, paths, question)
        for _ in range(_ATTEMPTS):
            status, body = await ask(app, asked, question.body, end - loop.time())
            if status not in _PASSING:
                return body if status == 200 else None
        return None

    questions = meter.questions()
    if questions is not None:
        await converse(questions, counted)
    await asyncio.to_thread(meter.count)


async def converse(
    questions: Generator[Question, _Reply | None, _Found], answer: Callable[[Question], Awaitable[_Reply | None]]
) -> _Found:
    """Answer each of `questions`, and return what they find."""
    try:
        question = next(questions)
        while True:
            question = questions.send(await answer(question))
    except StopIteration as over:
        found: _Found = over.value
        return found


async def ask(app: ASGIApp, scope: Scope, body: bytes, seconds: float) -> tuple[int, bytes | None]:
    """(status, body) of the app's answer. No body where it is too long or has no end; status 0 if none came in time."""
    answer = Collected(_MAX_ANSWER)
    try:
        async with asyncio.timeout(seconds):
            await app(scope, Given(body, answer.gone), answer.send)
    except TooLongError:
        pass
    except TimeoutError:
        return 0, None
    except Exception:  # noqa: BLE001 - whatever a route of the backend's does, the client's answer is not to suffer
        _log.debug("a question to the backend failed", exc_info=True)
        return 0, None
    return answer.status, answer.body


def scope_of(scope: Scope, paths: tuple[str, ...], question: Question) -> Scope:
    """The client's scope for a question, whose path is beside `/v1`: inference servers have there what is not OpenAI's.

    A question without a path keeps the client's. Its record is a copy, because its result is not that of the client's
    request.
    """
    scope = scope_for_body(scope, len(question.body), identity=True)
    query = b""
    if question.path is not None:
        path = scope["path"]
        given = (path, path.rstrip("/"), normal_path(path))
        path, suffix = next((one, suffix) for one in given for suffix in paths if one.endswith(suffix.rstrip("/")))
        path = path.removesuffix(suffix.rstrip("/")).removesuffix("/v1") + question.path
        path, _, asked = path.partition("?")
        query = asked.encode()
        scope = {**scope, "path": path, "raw_path": path.encode()}
    scope = {name: value for name, value in scope.items() if name != PASSAGE}
    return {
        **scope,
        "method": "POST" if question.body else "GET",
        "query_string": query,
        RECORD: replace(record_of(scope), is_question=True),
        "headers": [*without(scope["headers"], {b"content-type"}), (b"content-type", b"application/json")],
        "extensions": {},
    }


class ToolProofs:
    """Asks about one model at a time once; requests that name it meanwhile wait for the same answers."""

    def __init__(self) -> None:
        self._asking: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def learn(self, proof: PendingProof, app: ASGIApp, scope: Scope, paths: tuple[str, ...]) -> None:
        """Ask `app` and remember what it shows. scope: of the client's request; paths: those that are intercepted."""
        lock = self._asking.get(proof.model)
        if lock is None:
            lock = self._asking[proof.model] = asyncio.Lock()
        async with lock:
            if proof.is_due:
                evidence = await _answered(proof, app, scope, paths)
                proof.learn(evidence, await asyncio.to_thread(proof.derive, evidence))


async def _answered(proof: PendingProof, app: ASGIApp, scope: Scope, paths: tuple[str, ...]) -> Evidence:
    loop = asyncio.get_running_loop()
    end = loop.time() + (_PROOF_SECONDS if proof.support or proof.window else _COUNT_SECONDS)

    async def reply_to(question: Question) -> BackendReply | None:
        status, body = await ask(app, scope_of(scope, paths, question), question.body, end - loop.time())
        return None if body is None else BackendReply(status, body)

    return await converse(proof.questions(), reply_to)


class WholeUsage(Answer):
    """The app's answer to a request without tools. A whole completion without usage gets it; others are untouched."""

    def __init__(
        self, send: Send, app: ASGIApp, scope: Scope, settings: Settings, memory: BackendMemory, body: bytes
    ) -> None:
        super().__init__(send, _MAX_WHOLE)
        self._app = app
        self._scope = scope
        self._settings = settings
        self._memory = memory
        self._body = body

    async def run(self, receive: Receive) -> None:
        """Run the app. An answer that broke off goes as far as it came, as without us."""
        try:
            await self._app(self._scope, receive, self.send)
        except Exception:
            await self.flush()
            raise
        await self.flush()

    def begun(self) -> Reads:
        """See Answer."""
        whole = self.start["status"] == 200 and self.kind == b"application/json"
        return Reads.WHOLE if whole and not self.header(b"content-encoding") else Reads.NOTHING

    async def whole(self, body: bytes) -> bytes | None:
        """See Answer."""
        settings = self._settings
        if len(body) > _MAX_WHOLE or (settings.usage != "count" and not may_lack_numbers(body)):
            return None
        meter = meter_for(settings, openai.model_of(self._body), self._memory)
        await offloaded(len(self._body), meter.sent, self._body)
        fields = await offloaded(len(body), without_numbers, body, meter)
        if fields is None:
            return None
        if meter.is_due:
            await wait_for(meter, self._app, self._scope, settings.paths)
        out = await offloaded(len(body), with_numbers, body, fields, meter)
        note = b"mode=pass; usage=estimated" if meter.is_estimated else b"mode=pass"
        self.replaced(length=len(out))
        self.start["headers"].append((b"x-toolcall", note))
        return out
