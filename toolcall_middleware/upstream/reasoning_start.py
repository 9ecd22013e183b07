"""Whether a model's answer begins in a thought, because its chat template has opened one in the prompt.

Then the answer holds the thought's end and not its beginning. Names of models tell it of the families whose template
does so (formats/models.py); of others their first answer with such an end does. What an answer showed is remembered
for its client alone, since a client can have a model write `</think>`; and so is that a thought was expected and none
ended.
"""

from __future__ import annotations

from ..formats import models
from ..formats.base import ToolFormat
from ..parsing.text.reasoning import OpenedReasoning
from ..request.parse import ChatRequest
from ..settings import Settings
from ..wire import openai
from .backend_memory import REMEMBERED_SECONDS, BackendMemory, Fact, Topic

_SWITCHES = ("enable_thinking", "thinking")
"""What templates call the switch, in a request's `chat_template_kwargs`."""


class ReasoningStart:
    """What one request expects of its answers, and what they teach. fmt: what the prompt is written in."""

    def __init__(self, chat: ChatRequest, settings: Settings, memory: BackendMemory, fmt: ToolFormat) -> None:
        self._model = chat.model
        self._memory = memory
        self._fmt = fmt
        self._start = settings.reasoning_start
        self._switch = _switch(chat)
        # Of a model whose template has a switch, each position is another matter.
        self._fact = Fact(Topic.OPENS_THOUGHT, () if self._switch is None else (str(self._switch),))

    def opened(self, *, constrained: bool) -> OpenedReasoning | None:
        """The thought that the next answer begins in. constrained: it is held to JSON from its first character."""
        if constrained or self._start == "closed":
            return None
        if self._start == "open":
            return models.thoughts_of(self._fmt, self._model).tags
        if self._switch is False:
            return None
        known = self._known
        if known is None:
            return models.opened_reasoning(self._model)
        return models.thoughts_of(self._fmt, self._model).tags if known else None

    @property
    def _known(self) -> bool | None:
        known = self._memory.recall(self._model, self._fact)
        return known if isinstance(known, bool) else None

    def learn(self, opened: bool | None) -> None:  # noqa: FBT001 - what the answer showed, as it says it
        """An answer showed that the prompt opens its thought, or that it does not; or nothing (None)."""
        if self._start != "auto":
            return
        if opened is None and self._known is False:
            opened = False  # nothing speaks against what is known
        if opened is not None:
            self._memory.note_own(self._model, self._fact, value=opened, seconds=REMEMBERED_SECONDS)


def _switch(chat: ChatRequest) -> bool | None:
    """Whether the request turns thinking on or off; None where it leaves that to the template."""
    given = openai.read_value(chat.fields.get("chat_template_kwargs"))
    for name in _SWITCHES if isinstance(given, dict) else ():
        if isinstance(on := given.get(name), bool):
            return on
    return None
