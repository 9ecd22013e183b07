"""What a request may change for itself, and that it can only tighten."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.request.parse import ChatRequest
from toolcall_middleware.settings import OPTIONS, Settings
from toolcall_middleware.settings.options import Strictness
from toolcall_middleware.settings.settings import admits

from . import offers
from .offers import function

TOOL = function("look", description="0123456789")


def read(options: Settings, **fields: Any) -> ChatRequest:
    return offers.read(TOOL, function("other"), options=options, **fields)


def refusal(options: Settings, **fields: Any) -> tuple[str | int | None, str | None]:
    return offers.refusal(TOOL, function("other"), options=options, **fields)


@pytest.mark.parametrize(
    ("toolcall", "expected"),
    [
        ({}, {}),
        ({"mode": "native", "format": "hermes"}, {"mode": "native", "format": "hermes"}),
        ({"validate_arguments": "retry"}, {"validate_arguments": "retry"}),
        ({"stream_arguments": False, "retries": 0}, {"stream_arguments": False, "retries": 0}),
        ({"reasoning_field": "reasoning", "prose": "drop"}, {"reasoning_field": "reasoning", "prose": "drop"}),
        ({"max_tool_calls": 1, "max_result_bytes": "4k"}, {"max_tool_calls": 1, "max_result_bytes": 4096}),
    ],
)
def test_changes_are_read_as_settings(toolcall: dict[str, Any], expected: dict[str, Any]) -> None:
    chat = read(Settings(), toolcall=toolcall)
    assert chat.overrides == expected
    assert "toolcall" not in chat.fields
    Settings().replace(**chat.overrides)


@pytest.mark.parametrize(
    ("toolcall", "param"),
    [
        ([], "toolcall"),
        ("off", "toolcall"),
        ({"tokenizer": "tiktoken:x"}, "toolcall.tokenizer"),
        ({"upstream_key": "x"}, "toolcall.upstream_key"),
        ({"nonsense": 1}, "toolcall.nonsense"),
        ({"mode": "fast"}, "toolcall.mode"),
        ({"mode": "off"}, "toolcall.mode"),
        ({"mode": ["native"]}, "toolcall.mode"),
        ({"format": "klingon"}, "toolcall.format"),
        ({"format": None}, "toolcall.format"),
        ({"format": "os:path"}, "toolcall.format"),
        ({"validate_arguments": {}}, "toolcall.validate_arguments"),
        ({"stream_arguments": 5}, "toolcall.stream_arguments"),
        ({"retries": -1}, "toolcall.retries"),
        ({"retries": 2}, "toolcall.retries"),
        ({"max_tools": 129}, "toolcall.max_tools"),
        ({"max_tools": None}, "toolcall.max_tools"),
        ({"max_tools": True}, "toolcall.max_tools"),
        ({"unknown_tool": "forward"}, "toolcall.unknown_tool"),
        ({"allowlist": ["x" * 129]}, "toolcall.allowlist"),
        ({"allowlist": [f"x{number}" for number in range(129)]}, "toolcall.allowlist"),
    ],
)
def test_other_changes_are_refused(toolcall: Any, param: str) -> None:
    assert refusal(Settings(), toolcall=toolcall) == ("invalid_request", param)


def test_a_list_of_as_many_tools_as_may_be_offered_is_read() -> None:
    names = tuple(f"{number:0128}" for number in range(128))
    assert read(Settings(), toolcall={"allowlist": list(names)}).overrides["allowlist"] == names


STRICT = Settings(
    validate_arguments="retry", parallel="never", unknown_tool="error", malformed_arguments="error", max_tool_calls=5
)


@pytest.mark.parametrize(
    "toolcall",
    [
        {"validate_arguments": "off"},
        {"validate_arguments": "warn"},
        {"parallel": "client"},
        {"unknown_tool": "text"},
        {"malformed_arguments": "repair"},
        {"stream_arguments": True},
        {"max_tool_calls": 6},
        {"max_tool_calls": "none"},
    ],
)
def test_what_the_operator_set_is_not_loosened(toolcall: dict[str, Any]) -> None:
    assert refusal(STRICT, toolcall=toolcall) == ("invalid_request", f"toolcall.{next(iter(toolcall))}")


def test_asking_for_what_holds_anyway_is_fine() -> None:
    same = {"validate_arguments": "retry", "parallel": "never", "max_tool_calls": 5, "stream_arguments": False}
    assert read(STRICT, toolcall=same).overrides == same


def test_validate_tool_arguments_asks_for_errors() -> None:
    asked = {"request_options": {"validate_tool_arguments": True, "unknown": 1}}
    chat = read(Settings(), **asked)
    assert chat.overrides == {"validate_arguments": "error"}
    assert "request_options" not in chat.fields
    assert read(Settings(), **asked, toolcall={"validate_arguments": "warn"}).overrides == chat.overrides
    assert read(STRICT, request_options={"validate_tool_arguments": False}).overrides == {}
    param = "request_options.validate_tool_arguments"
    assert refusal(Settings(), request_options={"validate_tool_arguments": "yes"}) == ("invalid_request", param)
    assert refusal(Settings(), request_options=5) == ("invalid_request", "request_options")


def test_lower_limits_hold_for_the_request_itself() -> None:
    assert refusal(Settings(), toolcall={"max_tools": 1}) == ("too_many_tools", "tools")
    assert refusal(Settings(), toolcall={"max_description_length": 9}) == (
        "limit_exceeded",
        "tools[0].function.description",
    )
    assert not read(Settings(), toolcall={"parallel": "never"}).choice.parallel


def test_a_list_of_tools_of_its_own_is_enforced() -> None:
    assert read(Settings(), toolcall={"allowlist": ["look"]}).overrides == {
        "allowlist": ("look",),
        "allowlist_mode": "enforce",
    }
    assert read(Settings(), toolcall={"allowlist": None}).overrides == {}
    narrow = Settings(allowlist="look,get_*", allowlist_mode="warn")
    for names in (["look"], ["get_x", "get_*"], "look, get_*"):
        assert read(narrow, toolcall={"allowlist": names}).overrides["allowlist_mode"] == "enforce"
    for names in (["*"], ["look", "other"], ["get_?"], ["loo*"]):
        assert refusal(narrow, toolcall={"allowlist": names}) == ("invalid_request", "toolcall.allowlist")


def test_the_levels_of_a_setting_are_its_values() -> None:
    for option in OPTIONS.values():
        if isinstance(option.strictness, tuple):
            values = [value for level in option.strictness for value in level]
            assert len(values) == len(set(values))
            assert all(option.read(value) == value for value in values)
            if all(isinstance(value, str) for value in values):
                assert set(values) == set(option.allowed.split(", "))
        elif option.strictness is Strictness.FEWER:
            assert option.allowed.startswith("an integer")


# What the operator may have set, for every setting there is.
SAMPLES: dict[str, list[Any]] = {
    "format": ["auto", "hermes", "json"],
    "template": [None, "./model"],
    "paths": ["/chat/completions", "/x"],
    "reasoning_field": [None, "reasoning"],
    "tokenizer": ["approximate", "upstream"],
    "drop_params": [(), ("top_k",)],
    "allowlist": [(), ("look",), ("look", "o*"), ("*",)],
    "tools_budget": [None, "auto", 2000],
    "request_limit": [None, "60/minute"],
    "token_limit": [None, "60/minute"],
    "rate_limit": [None, "5/minute"],
    "rate_limit_storage": ["memory://", "redis://x"],
    "tenant_header": ["authorization", "x-tenant"],
    "tenants_file": [None, "tenants.toml"],
    "extension_field": [None, "_note"],
    "upstream_url": [None, "http://x/v1"],
    "upstream_ids": [None, "mistral"],
    "upstream_key": [None, "k"],
    "upstreams_file": [None, "x.toml"],
    "upload_timeout": [60.0, None],
    "upstream_timeout": [300.0, 5.0],
    "default_max_tokens": [8192, 100],
    "upstream_connect_timeout": [10.0, 1.0],
    "upstream_total_timeout": [None, 60.0],
    "upstream_first_byte_timeout": [60.0, None],
    "api_keys": [(), ("k",)],
    "faces": [("auto",), ("chat",)],
    "forward_paths": [("/models",), ("*",)],
    "allowed_hosts": [(), ("a.example",)],
    "cors_origins": [(), ("https://a.example",)],
    "model_aliases": [(), ("a*=b",)],
    "metrics": ["off", "on", "/numbers"],
    "inspector": [None, "0123456789abcdef0123456789abcdef"],
    "trace_dir": [None, "traces"],
    "trace_sample": [1.0, 0.5],
    "trace_max_bytes": [1 << 20, 1 << 16],
    "trace_dir_max_bytes": [1 << 20, 1 << 16],
}


def samples(name: str) -> list[Any]:
    allowed = OPTIONS[name].allowed
    if name in SAMPLES:
        return SAMPLES[name]
    if allowed.startswith("an integer"):
        return [None, 2, 3, 7] if "none" in allowed else [0, 1, 3]
    return [True, False] if allowed == "true or false" else allowed.split(", ")


OPERATORS = st.fixed_dictionaries({}, optional={name: st.sampled_from(samples(name)) for name in OPTIONS})
"""Any of the settings, each with any of its values."""


@st.composite
def asked_for(draw: st.DrawFn) -> dict[str, Any]:
    """What a request says: any settings, with good values, those of other settings, and nonsense."""
    names = draw(st.lists(st.sampled_from(sorted(OPTIONS)), max_size=4, unique=True))
    odd = st.none() | st.booleans() | st.integers(-1, 200) | st.sampled_from(["off", "none", "*", "native", "look"])
    return {name: draw(st.sampled_from(samples(name)) | odd) for name in names}


NAMES = ("look", "other", "x", "o", "*", "look2", "")


def admitted(options: Settings) -> set[str]:
    return {name for name in NAMES if options.allowlist_mode == "off" or admits(options.allowlist, name)}


def stricter_or_same(name: str, before: Settings, after: Settings) -> bool:
    """Said again and in another way than in the code: by hand for each kind of setting."""
    old, new = getattr(before, name), getattr(after, name)
    if old == new:
        return True
    if name.startswith("max_") or name == "retries":
        return old is None or bool(new is not None and new < old)
    strictest: dict[str, list[Any]] = {
        "validate_arguments": ["off", "warn", "retry", "error"],
        "stream_arguments": [True, False],
        "malformed_arguments": ["repair", "forward", "text", "error"],
        "parallel": ["client", "never"],
        "allowlist_mode": ["off", "warn", "enforce"],
    }
    if name == "unknown_tool":
        return bool(new == "error" or (old != "error" and new != "forward"))
    if name in strictest:
        return strictest[name].index(new) > strictest[name].index(old)
    if name == "allowlist":
        return before.allowlist_mode == "off" or admitted(after) <= admitted(before)
    if OPTIONS[name].room == "strict" or name == "call_index":
        return bool(new)
    if name == "mode":
        return bool(new != "off")
    if name in {"coerce_arguments", "repair_names"}:
        return True
    return name.startswith("reasoning") or name in {
        "format", "constrain", "prose", "messages", "system_role", "structured", "tools_budget", "choose",
    }  # fmt: skip


@pytest.mark.slow
@settings(max_examples=600, deadline=None)
@given(OPERATORS, asked_for(), st.booleans())
def test_no_request_loosens_any_setting(operator: dict[str, Any], toolcall: dict[str, Any], checked: bool) -> None:
    before = Settings(**{**operator, "mode": operator.get("mode", "prompt").replace("off", "prompt")})
    more = {"toolcall": toolcall, "request_options": {"validate_tool_arguments": checked}}
    try:
        chat = offers.read(options=before, tools=[TOOL][: before.max_tools], **more)
    except ToolCallError:
        return
    after = before.layer(chat.overrides, "request")
    assert [name for name in OPTIONS if not stricter_or_same(name, before, after)] == []
    assert {name for name in OPTIONS if after.source(name) == "request"} <= {*toolcall, *chat.overrides}
    assert not checked or after.validate_arguments in {"error", "retry"}


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_each_setting_by_itself_is_not_loosened(name: str) -> None:
    for value in samples(name):
        before = Settings(**({} if (name, value) == ("mode", "off") else {name: value}))
        for other in samples(name):
            try:
                chat = offers.read(TOOL, options=before, toolcall={name: other})
            except ToolCallError:
                continue
            after = before.layer(chat.overrides, "request")
            assert all(stricter_or_same(each, before, after) for each in OPTIONS)


def test_a_request_cannot_have_a_module_imported() -> None:
    module = "tests.bench.workers"
    sys.modules.pop(module, None)
    with pytest.raises(ToolCallError, match="names a module, which a request cannot do"):
        read(Settings(format=f"{module}:main"), toolcall={"format": f"{module}:main"})
    assert module not in sys.modules
