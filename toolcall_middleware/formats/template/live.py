"""Renders one chat template for request after request, in a process that stays and ends where it leaves its bounds.

A process for each request would cost a tenth of a second of starting. A template that takes too long, or too much
memory, costs its process, and the next request gets another.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import FormatError
from ...installed import install_command
from .render import MAX_SOURCE, MEMORY, NO_JINJA, SECONDS, ChatTemplate

MAX_PROMPT = 1 << 25
"""Characters of one prompt: more than any model takes, and a request's own limit is 32 MiB."""
_MOST = 4
"""Processes of one template: as many prompts are written at once, others wait."""
_WORKER = Path(__file__).with_name("worker.py")


class TemplateRefusalError(Exception):
    """The template does not render these messages, in its own words."""


class LiveTemplate:
    """One template, rendered in processes that stay. Threads may share it; a forked process starts its own."""

    def __init__(self, template: ChatTemplate) -> None:
        if len(template.source) > MAX_SOURCE:
            raise FormatError(f"the chat template has more than {MAX_SOURCE} characters")
        self._order = {
            "path": sys.path,
            "template": template.source,
            "special": {"bos_token": "", "eos_token": "", **template.special},
            "characters": MAX_PROMPT,
            "cpu_seconds": SECONDS,
            "memory_bytes": MEMORY,
        }
        self._places = threading.BoundedSemaphore(_MOST)
        self._idle: list[subprocess.Popen[bytes]] = []
        self._owner = os.getpid()
        weakref.finalize(self, _end_all, self._idle, self._owner)

    def render(self, context: Mapping[str, Any]) -> str:
        """The text of a context (`messages`, `tools`, …). Takes milliseconds: not for an event loop.

        Raises TemplateRefusalError where the template refuses it, FormatError where it leaves its bounds.
        """
        line = json.dumps(context).encode() + b"\n"
        with self._places:
            if self._owner != os.getpid():  # forked: those processes are another's
                self._owner, self._idle = os.getpid(), []
                weakref.finalize(self, _end_all, self._idle, self._owner)
            worker = self._idle.pop() if self._idle else self._start()
            if worker.poll() is not None:  # the system has ended it meanwhile
                _close(worker)
                worker = self._start()
            answer = _asked(worker, line)
            if not answer.endswith(b"\n"):
                raise _ended(worker)
            self._idle.append(worker)
        outcome: dict[str, str] = json.loads(answer)
        if "text" not in outcome:
            raise TemplateRefusalError(outcome.get("error", ""))
        return outcome["text"]

    def _start(self) -> subprocess.Popen[bytes]:
        worker = subprocess.Popen(  # noqa: S603 - this interpreter, and a file of ours
            [sys.executable, "-I", str(_WORKER), "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        _write(worker, json.dumps(self._order).encode() + b"\n")
        return worker


def _asked(worker: subprocess.Popen[bytes], line: bytes) -> bytes:
    """The worker's line; what it has of it where it ends or is ended."""
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
    except OSError:
        worker.kill()  # it ends, and its output tells of that


def _ended(worker: subprocess.Popen[bytes]) -> FormatError:
    """Why a worker has no more to say."""
    worker.kill()
    code = worker.wait()
    _close(worker)
    if code == NO_JINJA:
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
            except OSError:  # what was not written is nobody's any more
                continue
