"""A prompt that a template is to write, before the backend can be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...apis.completions import completion_body
from ...errors import FormatError, ToolCallError
from ...formats.base import ToolFormat
from ...formats.models import thoughts_of
from ...formats.template.prompts import TemplatePrompts, Written
from ...formats.template.render import TemplateRefusalError
from ...parsing.text.reasoning import OpenedReasoning
from .preserved import preserved_tokens


class PendingPrompt:
    """A prompt that is to be written before the backend is asked: a host runs `write` in a thread, then asks for
    `body`. written: None before. limit: bytes of the whole answer that is to come. llama_cpp: the backend is known to
    be its server. on_body: is told the body that the backend gets, which no action of the exchange holds.
    """

    def __init__(
        self,
        prompts: TemplatePrompts,
        parts: tuple[Any, Any, Any, Any],
        fmt: ToolFormat,
        model: str,
        limit: int | None,
        *,
        llama_cpp: bool = False,
    ) -> None:
        self._prompts = prompts
        self._parts = parts
        self._format = fmt
        self._model = model
        self._llama_cpp = llama_cpp
        self.limit = limit
        self.written: Written | None = None
        self.on_body: Callable[[bytes], object] | None = None

    def write(self) -> None:
        """Takes milliseconds. Raises ToolCallError."""
        try:
            self.written = self._prompts.write(*self._parts)
        except TemplateRefusalError as refusal:
            message = f"The model's chat template refuses these messages: {refusal}"
            raise ToolCallError("invalid_request", message, param="messages") from None
        except FormatError as error:
            raise ToolCallError("upstream_error", f"The prompt cannot be written: {error}") from None

    @property
    def text(self) -> str:
        """The prompt."""
        return "" if self.written is None else self.written.text

    def body(self, body: bytes) -> bytes:
        """The text completion's body for the chat completion's."""
        stop = () if self.written is None else self.written.ends
        preserved = preserved_tokens(self._format, self._model)
        asked = completion_body(body, self.text, stop=stop, preserved=preserved, llama_cpp=self._llama_cpp)
        if self.on_body is not None:
            self.on_body(asked)
        return asked

    @property
    def opened(self) -> OpenedReasoning | None:
        """The thought that the prompt's end opens."""
        if self.written is None or self.written.opened is None:
            return None
        opening, closing = self.written.opened
        known = thoughts_of(self._format, self._model).tags
        return known if known.opening.strip() == opening.strip() else OpenedReasoning(opening, closing)
