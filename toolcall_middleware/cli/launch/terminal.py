"""Runs the agent with the terminal handed over."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from types import FrameType

# The terminal sends these to the agent too, which stands in the same group of processes: what they mean is its matter.
_FROM_THE_TERMINAL = ("SIGINT", "SIGQUIT")
_HANDED_ON = ("SIGTERM", "SIGHUP")


def run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Runs `command` until it ends, and returns its exit code, or 128 + the signal that ended it.

    Raises OSError where it cannot be started.
    """
    with _handling() as agent:
        process = subprocess.Popen(list(command), env=dict(environment))  # noqa: S603 - the user's own agent
        agent.append(process)
        code = process.wait()
    return 128 - code if code < 0 else code


@contextlib.contextmanager
def _handling() -> Iterator[list[subprocess.Popen[bytes]]]:
    """While the block runs, signals are the agent's. A handler, not SIG_IGN: the agent would inherit that."""
    agent: list[subprocess.Popen[bytes]] = []

    def leave(_number: int, _frame: FrameType | None) -> None:
        """Nothing: the agent gets it by itself."""

    def hand_on(number: int, _frame: FrameType | None) -> None:
        for process in agent:
            process.send_signal(number)

    handlers = dict.fromkeys(_FROM_THE_TERMINAL, leave) | dict.fromkeys(_HANDED_ON, hand_on)
    numbers = {getattr(signal, name): handler for name, handler in handlers.items() if hasattr(signal, name)}
    before = {number: signal.signal(number, handler) for number, handler in numbers.items()}
    try:
        yield agent
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
