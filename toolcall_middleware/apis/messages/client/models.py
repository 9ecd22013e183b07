"""OpenAI's list of models as Anthropic's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from ....errors import ToolCallError
from ....wire import openai

_MOST = 1000  # of a page, as in the API
_PAGE = 20
_LATEST = 253_402_300_799  # the last second that a date can have


def models_of(data: bytes, *, limit: int | None, after_id: str | None, before_id: str | None) -> dict[str, Any]:
    """The page of `GET /v1/models` that a client asks for by its query; all models where it asks for no page.

    data: the body of OpenAI's list. Raises ToolCallError where it is none, or `limit` is out of bounds.
    """
    if limit is not None and not 1 <= limit <= _MOST:
        raise ToolCallError("invalid_request", f"Input should be between 1 and {_MOST}", param="limit")
    value = openai.read_value(data)
    listed = value.get("data") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise ToolCallError("upstream_error", "The answer is no list of models.")
    models = [_model(entry) for entry in listed if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
    names = [model["id"] for model in models]
    size = limit or max(_PAGE, len(models))
    if before_id in names:
        end = names.index(before_id)
        page = models[max(0, end - size) : end]
        more = end > size
    else:
        begin = names.index(after_id) + 1 if after_id in names else 0
        page = models[begin : begin + size]
        more = begin + size < len(models)
    return {
        "data": page,
        "has_more": more,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
    }


def model_of(data: bytes, name: str) -> dict[str, Any]:
    """The answer to `GET /v1/models/{name}`. data: OpenAI's list, or its entry of that model.

    Raises ToolCallError `model_not_found`.
    """
    value = openai.read_value(data)
    entries = value.get("data", [value]) if isinstance(value, dict) else []
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("id") == name:
            return _model(entry)
    raise ToolCallError("model_not_found", f"model: {name[:200]}")


def _model(entry: dict[str, Any]) -> dict[str, Any]:
    created = entry.get("created")
    seconds = created if isinstance(created, int) and 0 <= created <= _LATEST else 0
    model = {
        "type": "model",
        "id": entry["id"],
        "display_name": entry["id"],
        "created_at": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
    }
    # vLLM tells how long a prompt may be; Anthropic's field for it has another name.
    length = entry.get("max_model_len")
    if isinstance(length, int) and not isinstance(length, bool) and length > 0:
        model["max_input_tokens"] = length
    return model
