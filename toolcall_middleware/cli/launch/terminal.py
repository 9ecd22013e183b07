"""Runs the agent with the terminal handed over, or waits for the signal that ends a launch without one."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType

# The terminal sends these to the agent too, which is in the same process group: the agent decides what they do.
_FROM_THE_TERMINAL = ("SIGINT", "SIGQUIT")
_HANDED_ON = ("SIGTERM", "SIGHUP")


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs `command` until it ends, and returns its exit code, or 128 + the signal that ended it.

    Raises OSError where it cannot be started.
    """
    agent: list[subprocess.Popen[bytes]] = []

    def leave(_number: int, _frame: FrameType | None) -> None:
        """Nothing: the agent gets it by itself. A handler, not SIG_IGN: the agent would inherit that."""

    def hand_on(number: int, _frame: FrameType | None) -> None:
        for process in agent:
            process.send_signal(number)

    with _handled(dict.fromkeys(_FROM_THE_TERMINAL, leave) | dict.fromkeys(_HANDED_ON, hand_on)):
        process = subprocess.Popen(list(command), env=dict(environment))  # noqa: S603 - the user's own agent
        agent.append(process)
        code = process.wait()
    return 128 - code if code < 0 else code


class _EndedError(BaseException):
    """A signal that ends the launch, whose clean-up has still to be done."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def wait(ready: Callable[[], None]) -> int:
    """Calls `ready`, then waits for a signal: 0 for Ctrl-C, else 128 + the signal."""

    def end(number: int, _frame: FrameType | None) -> None:
        raise _EndedError(number)

    try:
        with _handled(dict.fromkeys(_HANDED_ON, end)):
            ready()  # a user who reads its output may press Ctrl-C at once
            threading.Event().wait()
    except _EndedError as ended:
        return 128 + ended.number
    except KeyboardInterrupt:
        pass
    return 0


@contextlib.contextmanager
def _handled(handlers: Mapping[str, Callable[[int, FrameType | None], None]]) -> Iterator[None]:
    """Sets the handlers of signals, by their names, while the block runs."""
    numbers = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
