"""In which format a request's prompt is written, whether its answer begins in a thought, and what answers teach about
both.

An engine that parses a family's calls by itself takes them out of the text, whatever was asked: vLLM does so for
gpt-oss. Where it makes calls of them, they are read as calls (response/native_calls.py); where it does not, nothing is
left of the answer but its count of tokens. Then the prompt asks for `json`, which no engine takes for markup.

The count is the backend's own: it is asked for in a stream too, until a model's first call in the format has come. A
backend that counts nothing shows nothing, because an answer without a word and one that lost all of them are the same
bytes; a format that is set, and `usage=count`, are the operator's word.

An answer begins in a thought where the chat template has opened one in the prompt: it holds the thought's end and not
its beginning. Names of models tell it of the families whose template does so (formats/models.py); of others their first
answer with such an end does. What an answer showed is remembered for its client alone, since a client can have a model
write `</think>`; and so is that a thought was expected and none ended.
"""

from __future__ import annotations

import logging

from ..errors import shown
from ..formats import models, registry
from ..formats.base import ToolFormat
from ..parsing.text.reasoning import OpenedReasoning
from ..request.parse import ChatRequest
from ..response.choice import AnswerOutcome
from ..settings import Settings
from ..wire import openai
from .backend_memory import REMEMBERED_SECONDS, BackendMemory, Fact, Topic, odd_fields, speaks_of_calls
from .tool_support import template_of

_log = logging.getLogger("toolcall_middleware")
LEAST_TOKENS = 8
"""Of an answer in which nothing is to be seen: fewer are what ends a turn, and no call is as short."""
_LEAST_BYTES = 3
"""Of a token of reasoning, so that no text is counted for less than it has: Chinese has three bytes a character."""
_PLAIN = "json"


class PromptFormat:
    """The format of one request's prompt. `chosen`: it, as it writes and reads. `why`: for people who read a trace."""

    def __init__(self, chat: ChatRequest, settings: Settings, memory: BackendMemory) -> None:
        self._chat = chat
        self._settings = settings
        self._memory = memory
        template = template_of(chat.model, settings, memory)
        self.chosen: ToolFormat = registry.for_model(settings.format, chat.model, template)
        self.why = f"format={settings.format} ({settings.source('format')})"
        if settings.format == "auto":
            name = shown(chat.model)
            if self.name == registry.TEMPLATE:
                self.why += f"; by template: the name {name} tells no family, template={template} does"
            elif registry.get("auto") is not self.chosen:
                self.why += f"; by name: {name} tells the family"
            else:
                self.why += f"; by markers: the name {name} tells no family, and no template does"
            if self.name != _PLAIN and memory.recall(chat.model, self._fact()):
                self._write_plainly()
                self.why += ", whose own calls its engine took out of the text"

    @property
    def name(self) -> str:
        """The name of the format that the prompt is written in."""
        return registry.prompt_name(self.chosen)

    @property
    def is_doubtful(self) -> bool:
        """Whether calls may get lost in this format, for none was seen: the count of an empty answer is of use then."""
        settings, model = self._settings, self._chat.model
        if settings.format != "auto" or settings.upstream_api != "openai" or settings.usage == "count":
            return False
        return self._chat.offers_tools and self.name != _PLAIN and not self._memory.recall(model, self._proof())

    def prove(self) -> None:
        """A call has come."""
        self._memory.note(self._chat.model, self._proof())

    def _proof(self) -> Fact:
        return Fact(Topic.CALLS_COME, (self.name,))

    def is_swallowed(self, outcome: AnswerOutcome, completion_tokens: int | None) -> bool:
        """Whether an answer shows that the engine keeps calls of this format to itself.

        It is remembered then, and the prompt is to be written anew. completion_tokens: by the backend's own count,
        without those of hidden reasoning.
        """
        if not outcome.silent or outcome.cut or self.name == _PLAIN or not self._chat.offers_tools:
            return False
        if (completion_tokens or 0) - outcome.thought_bytes / _LEAST_BYTES < LEAST_TOKENS:
            return False
        model, fact, chat = self._chat.model, self._fact(), self._chat
        if self._settings.format != "auto":
            if not self._memory.recall(model, fact):
                self._memory.note(model, fact)
                _log.warning("%s; format=auto would ask for json then.", self._fault())
            return False
        _log.warning("%s: the prompt asks for json for a while.", self._fault())
        if chat.stop or odd_fields(chat) or speaks_of_calls(chat):
            self._memory.note_own(model, fact)
        else:
            self._memory.note(model, fact)
        self._write_plainly()
        return True

    def _fault(self) -> str:
        model = shown(self._chat.model)
        return f"An answer of {model} was empty, though tokens were counted: its engine may keep {self.name} calls"

    def _fact(self) -> Fact:
        return Fact(Topic.CALLS_KEPT, (self.name,))

    def _write_plainly(self) -> None:
        in_json = getattr(self.chosen, "in_json", None)
        if in_json is not None:
            self.chosen = in_json()


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
