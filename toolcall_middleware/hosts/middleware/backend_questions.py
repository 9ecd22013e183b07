"""Questions to the backend beside the client's request, asked through the app itself: how many tokens a text has
(`/tokenize`), and whether tools reach its models (`mode=auto`). Long texts are counted in a thread.

Also the usage of whole answers to requests without tools, which pass unchanged where they have it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from weakref import WeakValueDictionary

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...apis.passage import PASSAGE
from ...settings import Settings
from ...upstream.backend_memory import BackendMemory
from ...upstream.tool_support import PendingProof, Told, ToolSupport
from ...usage.pending_count import PendingCount, meter_for, model_of
from ...usage.tap import WholeTap
from ...usage.upstream_tokenizer import Question
from ..http.bodies import giving
from ..http.headers import OF_ITS_BYTES, scope_for_body, without
from ..http.offload import offloaded
from ..http.paths import normal_path

_COUNT_SECONDS = 2.0
"""For all questions about one answer: its end waits for them."""
_PROOF_SECONDS = 20.0
"""For all questions about one model, which may have to be loaded first: requests wait for them."""
_ATTEMPTS = 2
_PASSING = frozenset({502, 503, 504})
"""Of a proxy: its upstream may just have closed an old connection, which says nothing of what it can do."""
_MAX_ANSWER = 16 << 20
_MAX_WHOLE = 8 << 20
_log = logging.getLogger("toolcall_middleware")


async def wait_for(pending: PendingCount, app: ASGIApp, scope: Scope, paths: tuple[str, ...]) -> None:
    """Count what the pending has to count. scope: of the client's request; paths: the suffixes that are intercepted."""
    questions = pending.questions()
    if questions is not None:
        loop = asyncio.get_running_loop()
        end = loop.time() + _COUNT_SECONDS
        with contextlib.suppress(StopIteration):
            question = next(questions)
            while True:
                asked = scope_of(scope, paths, question)
                answer = None
                for _ in range(_ATTEMPTS):
                    status, body = await ask(app, asked, question.body, end - loop.time())
                    answer = body if status == 200 else None
                    if answer is not None or status not in _PASSING:
                        break
                question = questions.send(answer)
    await asyncio.to_thread(pending.count)


async def ask(app: ASGIApp, scope: Scope, body: bytes, seconds: float) -> tuple[int, bytes | None]:
    """(status, body) of the app's answer. No body where it is too long or has no end; status 0 if none came in time."""
    answer = _Answer()
    try:
        async with asyncio.timeout(seconds):
            await app(scope, giving(body, answer.gone), answer.send)
    except TimeoutError:
        return 0, None
    except Exception:  # noqa: BLE001 - whatever a route of the backend's does, the client's answer is not to suffer
        _log.debug("a question to the backend failed", exc_info=True)
        return 0, None
    return answer.status, answer.body()


class _Answer:
    """What the app answers to a request that we make."""

    def __init__(self) -> None:
        self._over = asyncio.Event()
        self.status = 0
        self._parts: list[bytes] = []
        self._size = 0

    async def gone(self) -> Message:
        await self._over.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body" and not self._over.is_set():
            part = message.get("body", b"")
            self._size += len(part)
            if self._size <= _MAX_ANSWER:
                self._parts.append(part)
            if not message.get("more_body", False):
                self._over.set()

    def body(self) -> bytes | None:
        good = self._over.is_set() and self._size <= _MAX_ANSWER
        return b"".join(self._parts) if good else None


def scope_of(scope: Scope, paths: tuple[str, ...], question: Question) -> Scope:
    """The client's scope for a question, whose path is beside `/v1`: inference servers have there what is not OpenAI's.

    A question without a path keeps the client's.
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
                proof.learn(await _answered(proof, app, scope, paths))


async def _answered(proof: PendingProof, app: ASGIApp, scope: Scope, paths: tuple[str, ...]) -> ToolSupport | None:
    questions = proof.questions()
    loop = asyncio.get_running_loop()
    end = loop.time() + _PROOF_SECONDS
    told: Told | None = None
    try:
        question = next(questions)
        while True:
            asked = scope_of(scope, paths, question)
            status, body = await ask(app, asked, question.body, end - loop.time())
            told = None if body is None else Told(status, body)
            question = questions.send(told)
    except StopIteration as over:
        support: ToolSupport | None = over.value
        return support


class WholeUsage:
    """Runs the app for a request without tools. A whole completion without usage gets it; anything else is untouched.

    The messages of such an answer are held until it is complete, and leave as they came where nothing is to be added.
    """

    def __init__(self, app: ASGIApp, settings: Settings, memory: BackendMemory, body: bytes) -> None:
        self._app = app
        self._settings = settings
        self._memory = memory
        self._body = body
        self._held: list[Message] | None = None
        self._size = 0

    async def run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request and its answer."""
        passing = False

        async def look(message: Message) -> None:
            nonlocal passing
            if not passing:
                if message["type"] == "http.response.start":
                    message = {**message, "headers": list(message.get("headers", ()))}  # an iterator gives them once
                if self._hold(message):
                    if message["type"] == "http.response.body" and not message.get("more_body", False):
                        passing = True
                        await self._complete(scope, send)
                    return
                passing = True
                await self._flush(send)
            await send(message)

        try:
            await self._app(scope, receive, look)
        except Exception:
            # An answer that broke off goes as far as it came, as without us.
            await self._flush(send)
            raise
        await self._flush(send)

    def _hold(self, message: Message) -> bool:
        """Whether this message is kept: of a successful JSON answer that is not too large."""
        if message["type"] == "http.response.start":
            headers = {name.lower(): value for name, value in message.get("headers", ())}
            kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
            if message["status"] != 200 or kind != b"application/json" or b"content-encoding" in headers:
                return False
            self._held = [message]
            return True
        if message["type"] != "http.response.body" or self._held is None:
            return False
        self._size += len(message.get("body", b""))
        if self._size > _MAX_WHOLE:
            return False
        self._held.append(message)
        return True

    async def _flush(self, send: Send) -> None:
        held, self._held = self._held, None
        for message in held or ():
            await send(message)

    async def _complete(self, scope: Scope, send: Send) -> None:
        """The answer is all here."""
        held = self._held or []
        data = held[1].get("body", b"") if len(held) == 2 else b"".join(each.get("body", b"") for each in held[1:])
        settings = self._settings
        replace = settings.usage == "count"
        if not replace and not WholeTap.may_lack(data):
            await self._flush(send)
            return
        model = model_of(self._body)
        meter = meter_for(settings, model, self._memory)
        await offloaded(len(self._body), meter.sent, self._body)
        tap = WholeTap(meter, replace=replace)
        if not await offloaded(len(data), tap.lacks, data):
            await self._flush(send)
            return
        if meter.is_due:
            await wait_for(PendingCount(meter, model, self._memory), self._app, scope, settings.paths)
        body = await offloaded(len(data), tap.add, data)
        note = "mode=pass; usage=estimated" if meter.is_estimated else "mode=pass"
        start = held[0]
        headers = without(start["headers"], OF_ITS_BYTES)
        headers += [(b"content-length", str(len(body)).encode()), (b"x-toolcall", note.encode())]
        self._held = None
        await send({**start, "headers": headers})
        await send({"type": "http.response.body", "body": body, "more_body": False})
