"""Which value of a setting is stricter than which: the one table behind "a request may tighten, never loosen"."""

from __future__ import annotations

import enum
import fnmatch
import functools
from collections.abc import Mapping
from typing import Any

from . import Settings


class Order(enum.Enum):
    """How the values of a setting compare, where they are not levels."""

    OPERATOR = "operator"  # a request does not set it at all
    FREE = "free"  # it says how, not how much: every value is as safe as any other
    FEWER = "fewer"  # a smaller number is stricter; none is the loosest
    SUBSET = "subset"  # patterns of names: what they admit may only become less


Levels = tuple[tuple[Any, ...], ...]
"""From the loosest to the strictest; values of one level are as strict as each other."""

_ON: Levels = ((False,), (True,))

ORDER: Mapping[str, Order | Levels] = {
    # A request that turns everything off would slip past the checks of the answer.
    "mode": (("off",), ("prompt", "native", "auto")),
    "format": Order.FREE,
    "profile": Order.OPERATOR,
    "paths": Order.OPERATOR,
    "constrain": Order.FREE,
    "retries": Order.FEWER,
    "parallel": (("client",), ("never",)),
    "unknown_tool": (("forward",), ("text", "drop"), ("error",)),
    "malformed_arguments": (("repair",), ("text",), ("error",)),
    "stream_arguments": ((True,), (False,)),
    "reasoning": Order.FREE,
    "reasoning_field": Order.FREE,
    "prose": Order.FREE,
    "messages": Order.FREE,
    "system_role": Order.FREE,
    "special_tokens": Order.OPERATOR,
    "validate_arguments": (("off",), ("warn",), ("retry",), ("error",)),
    "usage": Order.OPERATOR,
    "tokenizer": Order.OPERATOR,
    "drop_params": Order.OPERATOR,
    "max_tools": Order.FEWER,
    "max_tool_name_length": Order.FEWER,
    "max_description_length": Order.FEWER,
    "max_schema_depth": Order.FEWER,
    "max_arguments_bytes": Order.FEWER,
    "max_tool_calls": Order.FEWER,
    "max_tool_rounds": Order.FEWER,
    "max_messages": Order.FEWER,
    "max_result_bytes": Order.FEWER,
    "max_request_bytes": Order.OPERATOR,  # it was obeyed before the request could be read
    "upload_timeout": Order.OPERATOR,  # likewise
    "max_response_bytes": Order.FEWER,
    "allowlist": Order.SUBSET,
    "allowlist_mode": (("off",), ("warn",), ("enforce",)),
    "rate_limit": Order.OPERATOR,
    "rate_limit_storage": Order.OPERATOR,
    "rate_limit_failure": Order.OPERATOR,
    "tenant_header": Order.OPERATOR,
    "tenants_file": Order.OPERATOR,
    "arguments_as_object": _ON,
    "rewrite_ids": _ON,
    "require_descriptions": _ON,
    "refuse_deprecated": _ON,
    "strict_names": _ON,
    "strict_schemas": _ON,
    "strict_ids": _ON,
    "strict_results": _ON,
    "call_index": _ON,
    "extension_field": Order.OPERATOR,
    "upstream_url": Order.OPERATOR,
    "upstream_api": Order.OPERATOR,
    "upstream_ids": Order.OPERATOR,
    "upstream_key": Order.OPERATOR,
    "upstreams_file": Order.OPERATOR,
    "upstream_timeout": Order.OPERATOR,
    "default_max_tokens": Order.OPERATOR,
    "upstream_connect_timeout": Order.OPERATOR,
    "upstream_total_timeout": Order.OPERATOR,
    "upstream_connections": Order.OPERATOR,
    "upstream_retries": Order.OPERATOR,
    "api_keys": Order.OPERATOR,
    "shutdown_grace": Order.OPERATOR,
    "access_log": Order.OPERATOR,
}


def of_request(name: str) -> bool:
    """Whether a request may say something about this setting."""
    return ORDER.get(name, Order.OPERATOR) is not Order.OPERATOR


def is_looser(name: str, value: Any, settings: Settings) -> bool:
    """Whether `value` would loosen what `settings` say."""
    current = getattr(settings, name)
    match ORDER[name]:
        case Order.OPERATOR:
            return bool(value != current)
        case Order.FREE:
            return False
        case Order.FEWER:
            return current is not None and (value is None or value > current)
        case Order.SUBSET:
            return settings.allowlist_mode != "off" and not all(_within(pattern, current) for pattern in value)
        case levels:
            return _level(levels, value) < _level(levels, current)


def _level(levels: Levels, value: Any) -> int:
    return next(number for number, values in enumerate(levels) if value in values)


def _within(pattern: str, patterns: tuple[str, ...]) -> bool:
    """Whether all that `pattern` admits is admitted by `patterns`: a name that they admit, or one of them."""
    return pattern in patterns or (not set("*?[") & set(pattern) and admits(patterns, pattern))


@functools.lru_cache(maxsize=4096)
def admits(patterns: tuple[str, ...], name: str) -> bool:
    """Whether a tool's name is one of `patterns`: names, or globs with `*`, `?` and `[...]`."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
