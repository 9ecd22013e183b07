"""The operator's field of warnings (`extension_field`), which the exchange writes beside a chat answer's own fields."""

from __future__ import annotations

from typing import Any

from ..wire import openai


class ExtensionCopy:
    """Takes the field out of one chat answer, for the answer of another API. name: of the field, where there is one."""

    __slots__ = ("_name", "_said", "_written")

    def __init__(self, name: str | None = None) -> None:
        self._name = name
        self._written = b"" if name is None else openai.encode(name)
        self._said: dict[str, Any] = {}

    def read(self, data: bytes) -> None:
        """A chunk, or a whole answer: what it says there. In a stream, the chunk with the usage may say more of it."""
        if self._name is None or self._written not in data:
            return
        value = openai.read_value((openai.read_object(data) or {}).get(self._name))
        if isinstance(value, dict):
            self._said |= value

    def beside(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The fields of an answer, and this one. A name that the API itself uses stays the API's."""
        if self._name is None or not self._said or self._name in fields:
            return fields
        return {**fields, self._name: self._said}
