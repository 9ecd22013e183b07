"""Renders chat templates within bounds: in processes of their own, with a clock, a memory limit and a limit of output.

A process is kept for the next request, because starting one takes a tenth of a second. A template that exceeds its
bounds costs its process, and the next request gets another.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

from ...errors import FormatError
from ...installed import install_command
from ...usage.tokenizers import template_worker

MAX_SOURCE = 1 << 20
"""Characters of a template's text: the longest that is known has 20,000."""
MAX_TEXT = 1 << 18
"""Characters of one rendering: a conversation of four short messages and two tools."""
MAX_PROMPT = 1 << 25
"""Characters of one prompt: more than any model takes, and a request's own limit is 32 MiB."""
SECONDS = 10
"""CPU seconds for all that is rendered at once; the wall-clock limit is twice that. A usual template takes 0.01."""
MEMORY = 1 << 30  # bytes of address space, Python's own included
_MOST = 4
"""Processes of one template: as many texts are rendered at once, others wait."""


class TemplateRefusalError(Exception):
    """The template does not render these messages, in its own words."""


class ChatTemplate:
    """A chat template as a checkpoint holds it. Threads may share it; a forked process starts its own processes.

    special: the special tokens that it may name, such as `bos_token`.
    """

    def __init__(self, source: str, special: Mapping[str, str] | None = None) -> None:
        self.source = source
        self.special = special or {}
        self._places = threading.BoundedSemaphore(_MOST)
        self._start_pool()

    def _start_pool(self) -> None:
        self._idle: list[subprocess.Popen[bytes]] = []
        self._owner = os.getpid()
        weakref.finalize(self, _end_all, self._idle, self._owner)

    def render(self, contexts: Sequence[Mapping[str, Any]]) -> list[str | None]:
        """The text of each context (`messages`, `tools`, …); None where the template refuses it.

        Raises FormatError where jinja2 is missing, the template is not valid Jinja or it exceeds its bounds.
        """
        return [outcome.get("text") for outcome in self._asked(contexts, MAX_TEXT)]

    def write(self, context: Mapping[str, Any]) -> str:
        """The text of one context, a prompt. Takes milliseconds: not for an event loop.

        Raises TemplateRefusalError where the template refuses it, FormatError as `render` does.
        """
        (outcome,) = self._asked([context], MAX_PROMPT)
        if "text" not in outcome:
            raise TemplateRefusalError(outcome.get("error", ""))
        return outcome["text"]

    def _asked(self, contexts: Sequence[Mapping[str, Any]], characters: int) -> list[dict[str, str]]:
        if len(self.source) > MAX_SOURCE:
            raise FormatError(f"the chat template has more than {MAX_SOURCE} characters")
        line = json.dumps({"contexts": list(contexts), "characters": characters}).encode() + b"\n"
        with self._places:
            if self._owner != os.getpid():  # forked: those processes are the parent's
                self._start_pool()
            worker = self._idle.pop() if self._idle else self._start()
            if worker.poll() is not None:  # the system has ended it meanwhile
                _close(worker)
                worker = self._start()
            answer = _answer(worker, line)
            if not answer.endswith(b"]\n"):
                raise _ended(worker, answer)
            self._idle.append(worker)
        outcomes: list[dict[str, str]] = json.loads(answer)
        return outcomes

    def _start(self) -> subprocess.Popen[bytes]:
        worker = subprocess.Popen(  # noqa: S603 - this interpreter, and a file of ours
            [sys.executable, "-I", template_worker.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        order = {
            "path": sys.path,
            "template": self.source,
            # A template that adds the end of the turn to a text fails where the configuration does not have it.
            "special": {"bos_token": "", "eos_token": "", **self.special},
            "cpu_seconds": SECONDS,
            "memory_bytes": MEMORY,
        }
        _write(worker, json.dumps(order).encode() + b"\n")
        return worker


def _answer(worker: subprocess.Popen[bytes], line: bytes) -> bytes:
    """The worker's line, or the part of it received before the worker ended."""
    clock = threading.Timer(2 * SECONDS, worker.kill)
    clock.daemon = True
    clock.start()
    try:
        _write(worker, line)
        assert worker.stdout is not None  # noqa: S101 - it was started with a pipe
        return worker.stdout.readline()
    finally:
        clock.cancel()


def _write(worker: subprocess.Popen[bytes], line: bytes) -> None:
    assert worker.stdin is not None  # noqa: S101 - it was started with a pipe
    try:
        worker.stdin.write(line)
        worker.stdin.flush()
    except OSError:  # it has ended: jinja2 is missing, a bound was exceeded, or the template is not Jinja
        return


def _ended(worker: subprocess.Popen[bytes], answer: bytes) -> FormatError:
    """The error for a worker that returned no outcomes."""
    worker.kill()
    code = worker.wait()
    _close(worker)
    if answer.endswith(b"}\n"):
        return FormatError(f"the chat template cannot be read: {json.loads(answer)['error']}")
    if code == template_worker.NO_JINJA:
        return FormatError(f"a chat template needs jinja2: {install_command('hf')}")
    return FormatError("the chat template takes more time or memory than it may, or cannot be rendered at all")


def _end_all(workers: list[subprocess.Popen[bytes]], owner: int) -> None:
    for worker in workers:
        if owner == os.getpid():
            worker.kill()
            worker.wait()
        _close(worker)


def _close(worker: subprocess.Popen[bytes]) -> None:
    for pipe in (worker.stdin, worker.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:  # bytes that were not written are of no use
                continue
