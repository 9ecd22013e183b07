"""Every option: default, what it allows, where it came from, and that no secret is shown."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from toolcall_middleware import Settings, SettingsError
from toolcall_middleware.cli.dispatch import build_parser
from toolcall_middleware.settings import OPTIONS, PROFILES
from toolcall_middleware.settings.keywords import Keywords
from toolcall_middleware.settings.options import Values

from .. import typed_settings

# The public contract: names and defaults do not change without a changelog entry and a deprecation.
DEFAULTS: dict[str, Any] = {
    "mode": "prompt",
    "format": "auto",
    "template": None,
    "send": "chat",
    "profile": "compat",
    "paths": ("/chat/completions",),
    "faces": ("auto",),
    "constrain": "auto",
    "retries": 1,
    "parallel": "client",
    "unknown_tool": "text",
    "malformed_arguments": "repair",
    "coerce_arguments": True,
    "repair_names": True,
    "stream_arguments": True,
    "reasoning": "ignore",
    "reasoning_field": None,
    "reasoning_start": "auto",
    "prose": "keep",
    "messages": "plain",
    "system_role": "system",
    "special_tokens": "auto",
    "validate_arguments": "off",
    "usage": "auto",
    "tokenizer": "approximate",
    "drop_params": (),
    "max_tools": 128,
    "max_tool_name_length": 64,
    "tool_name_pattern": None,
    "max_description_length": None,
    "max_schema_depth": None,
    "max_arguments_bytes": 4 * 1024 * 1024,
    "max_tool_calls": 128,
    "max_tool_rounds": None,
    "max_repeated_calls": None,
    "max_messages": None,
    "max_result_bytes": None,
    "max_request_bytes": 32 * 1024 * 1024,
    "upload_timeout": 60.0,
    "max_response_bytes": 64 * 1024 * 1024,
    "allowlist": (),
    "allowlist_mode": "off",
    "rate_limit": None,
    "request_limit": None,
    "token_limit": None,
    "rate_limit_storage": "memory://",
    "rate_limit_failure": "open",
    "tenant_header": "authorization",
    "tenants_file": None,
    "arguments_as_object": False,
    "rewrite_ids": False,
    "require_descriptions": False,
    "refuse_deprecated": False,
    "strict_names": False,
    "strict_tools": False,
    "strict_schemas": False,
    "strict_ids": False,
    "strict_results": False,
    "call_index": False,
    "extension_field": None,
    "upstream_url": None,
    "upstream_api": "openai",
    "upstream_ids": None,
    "upstream_key": None,
    "upstreams_file": None,
    "upstream_timeout": 300.0,
    "default_max_tokens": 8192,
    "structured": "auto",
    "tools_budget": None,
    "choose": False,
    "upstream_connect_timeout": 10.0,
    "upstream_first_byte_timeout": 60.0,
    "forward_paths": OPTIONS["forward_paths"].default,
    "allowed_hosts": (),
    "cors_origins": (),
    "upstream_total_timeout": None,
    "upstream_connections": None,
    "upstream_retries": 2,
    "api_keys": (),
    "shutdown_grace": 30,
    "access_log": "text",
    "model_aliases": (),
    "metrics": "off",
    "metrics_open": False,
    "trace_dir": None,
    "trace_sample": 1.0,
    "trace_max_bytes": 16 * 1024 * 1024,
    "trace_dir_max_bytes": 1024 * 1024 * 1024,
    "log_upstream_errors": True,
    "otel": False,
    "inspector": None,
}


def source(settings: Settings, name: str) -> str:
    return next(source for row, _, source in settings.explain() if row == name)


def shown(settings: Settings, name: str) -> str:
    return next(value for row, value, _ in settings.explain() if row == name)


# --- defaults and sources


def test_the_defaults_are_the_contracts() -> None:
    settings = Settings()
    assert {name: getattr(settings, name) for name in OPTIONS} == DEFAULTS


def test_each_option_is_declared_for_type_checkers() -> None:
    assert typed_settings.PATH.read_text("utf-8") == typed_settings.text()
    assert list(Keywords.__annotations__) == list(Values.__annotations__) == list(OPTIONS)


def test_each_default_is_itself_allowed() -> None:
    for name, option in OPTIONS.items():
        assert option.read(option.default) == option.default, name


def test_each_value_as_it_is_shown_can_be_given_back() -> None:
    settings = Settings(
        paths="/a,/b", max_tools=None, max_arguments_bytes="1KiB", upstream_timeout=2.5, allowlist=["x"]
    )
    environ = {f"TOOLCALL_{name.upper()}": value for name, value, _ in settings.explain()}
    assert Settings.from_env(environ) == settings


def test_keywords_win_over_the_environment_which_wins_over_defaults() -> None:
    settings = Settings.from_env({"TOOLCALL_MODE": "native", "TOOLCALL_FORMAT": "hermes", "PATH": "/bin"}, mode="off")
    assert (settings.mode, settings.format, settings.retries) == ("off", "hermes", 1)
    assert source(settings, "mode") == "keyword"
    assert source(settings, "format") == "environment TOOLCALL_FORMAT"
    assert source(settings, "retries") == "default"


def test_the_process_environment_is_read_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCALL_RETRIES", "7")
    assert Settings.from_env().retries == 7
    assert Settings().retries == 1


def test_an_empty_variable_counts_as_not_set() -> None:
    settings = Settings.from_env({"TOOLCALL_MODE": "", "TOOLCALL_MAX_TOOLS": " ", "TOOLCALL_UPSTREAM_KEY": ""})
    assert settings == Settings()
    assert source(settings, "max_tools") == "default"


# --- values


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("mode", "Native", "native"),
        ("mode", " off ", "off"),
        ("stream_arguments", "no", False),
        ("stream_arguments", "1", True),
        ("stream_arguments", False, False),
        ("retries", "0", 0),
        ("retries", 3, 3),
        ("max_tools", "none", None),
        ("max_tools", None, None),
        ("max_tools", "0", 0),
        ("max_request_bytes", "4MiB", 4 << 20),
        ("max_request_bytes", "4 MB", 4 << 20),
        ("max_request_bytes", "64k", 64 << 10),
        ("max_request_bytes", "1_000", 1000),
        ("upstream_timeout", "0.5", 0.5),
        ("upstream_timeout", 7, 7.0),
        ("paths", "/a, /b", ("/a", "/b")),
        ("paths", ["/a"], ("/a",)),
        ("drop_params", "none", ()),
        ("drop_params", "top_k, min_p,", ("top_k", "min_p")),
        ("reasoning_field", "none", None),
        ("reasoning_field", "reasoning_content", "reasoning_content"),
        ("tokenizer", "tiktoken:cl100k_base", "tiktoken:cl100k_base"),
        ("tokenizer", "hf:/models/x", "hf:/models/x"),
        ("tenant_header", "X-Tenant", "x-tenant"),
        ("upstream_url", "http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1"),
        ("upstream_url", "https://[::1]:8443", "https://[::1]:8443"),
        ("upstream_url", "none", None),
        ("api_keys", "a, b", ("a", "b")),
        ("api_keys", "none", ()),
        ("api_keys", [], ()),
        ("rate_limit", "60/minute", "60/minute"),
        ("rate_limit", " 10 PER 30  seconds", "10 per 30 seconds"),
        ("rate_limit", "none", None),
    ],
)
def test_values_are_read(name: str, given: Any, value: object) -> None:
    settings = Settings(**{name: given})
    assert getattr(settings, name) == value
    assert type(getattr(settings, name)) is type(value)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("mode", "promt"),
        ("mode", True),
        ("mode", None),
        ("stream_arguments", "maybe"),
        ("stream_arguments", 1),
        ("retries", "-1"),
        ("retries", "٣"),
        ("max_tools", "１２"),
        ("max_request_bytes", "٣k"),
        ("retries", "none"),
        ("retries", True),
        ("retries", 1.5),
        ("retries", "1.5"),
        ("max_tool_calls", "0"),
        ("max_request_bytes", "4 GB"),
        ("max_request_bytes", "k"),
        ("max_request_bytes", "many"),
        ("upstream_timeout", "0"),
        ("upstream_timeout", "-1"),
        ("upstream_timeout", "nan"),
        ("upstream_timeout", "inf"),
        ("upstream_timeout", "5m"),
        ("upstream_timeout", None),
        ("upstream_timeout", True),
        ("paths", ""),
        ("paths", "chat/completions"),
        ("paths", 3),
        ("paths", [1]),
        ("reasoning_field", "thoughts"),
        ("tokenizer", "tiktoken:"),
        ("tokenizer", "gpt2"),
        ("format", ""),
        ("tenant_header", "x tenant"),
        ("upstream_url", "127.0.0.1:8000"),
        ("upstream_url", "ftp://host/v1"),
        ("upstream_url", "http://"),
        ("upstream_url", "http:///v1"),
        ("upstream_url", "http://host:99999/v1"),
        ("upstream_url", "http://host:0/v1"),
        ("upstream_url", "http://host:port/v1"),
        ("upstream_url", "http://host/v1?key=1"),
        ("upstream_url", "http://host/v1#x"),
        ("upstream_url", "http://ho st/v1"),
        ("upstream_url", "http://a..b/v1"),
        ("upstream_url", "http://host/v1\n"),
        ("upstream_key", "two words"),
        ("upstream_key", "sk\r\nx: y"),
        ("upstream_key", "schlüssel"),
        ("api_keys", ","),
        ("api_keys", " , "),
        ("api_keys", [""]),
        ("api_keys", "two words"),
        ("rate_limit", "60"),
        ("rate_limit", "0/minute"),
        ("rate_limit", "60/fortnight"),
        ("rate_limit", "1/minute;5/hour"),
        ("rate_limit_failure", "panic"),
        ("extension_field", "choices"),
    ],
)
def test_a_bad_value_is_an_error_that_names_the_option_and_what_is_allowed(name: str, given: Any) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings(**{name: given})
    message = str(raised.value)
    assert message.startswith(f"{name}: ")
    assert OPTIONS[name].allowed in message
    assert "\n" not in message


def test_a_bad_variable_is_named_as_it_was_written() -> None:
    with pytest.raises(
        SettingsError, match=r"^TOOLCALL_MODE: 'promt' is not allowed; use prompt, native, auto, off\.$"
    ):
        Settings.from_env({"TOOLCALL_MODE": "promt"})


@pytest.mark.parametrize(
    ("variable", "hint"), [("TOOLCALL_FROMAT", "did you mean TOOLCALL_FORMAT?"), ("TOOLCALL_XYZZY", "known: TOOLCALL_")]
)
def test_an_unknown_variable_is_an_error(variable: str, hint: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_env({variable: "1"})
    assert str(raised.value).startswith(f"{variable} is not a setting; {hint}")


@pytest.mark.parametrize(
    ("variable", "option"),
    [
        ("PORT", "--port"),
        ("HOST", "--host"),
        ("WORKERS", "--workers"),
        ("LOG_LEVEL", "--log-level"),
        ("INSPECT", "--inspect"),
        ("UPSTREAM", "--upstream, or the variable TOOLCALL_UPSTREAM_URL"),
        ("UPSTREAMS", "--upstreams, or the variable TOOLCALL_UPSTREAMS_FILE"),
    ],
)
def test_a_variable_for_what_is_an_option_alone_is_told_so(variable: str, option: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_env({f"TOOLCALL_{variable}": "1"})
    assert str(raised.value) == f"TOOLCALL_{variable} is not a setting; it is an option of serve: {option}"
    assert option.partition(",")[0] in build_parser().parse_args(["serve"]).parser.format_help()


def test_an_unknown_keyword_is_an_error() -> None:
    with pytest.raises(SettingsError, match=r"max_tool is not a setting; did you mean max_tools\?"):
        Settings(max_tool=1)  # type: ignore[call-arg]  # what the test is about


# --- profiles and what follows from what


def test_profiles_set_what_nobody_set_by_hand() -> None:
    settings = Settings(profile="gateway", max_tool_calls=7)
    assert (settings.max_description_length, settings.max_schema_depth, settings.max_arguments_bytes) == (
        1024,
        5,
        65536,
    )
    assert (settings.max_tool_calls, settings.extension_field) == (7, "_toolcall")
    assert source(settings, "max_schema_depth") == "profile gateway"
    assert source(settings, "max_tool_calls") == "keyword"


def test_the_gateway_profile() -> None:
    assert PROFILES["gateway"] == {
        "tool_name_pattern": "^[a-zA-Z0-9_-]+$",
        "max_description_length": 1024,
        "max_schema_depth": 5,
        "max_arguments_bytes": 64 * 1024,
        "max_tool_calls": 20,
        "max_repeated_calls": 3,
        "call_index": True,
        "extension_field": "_toolcall",
    }


def test_the_strict_profile() -> None:
    settings = Settings.from_env({"TOOLCALL_PROFILE": "strict"})
    assert settings.arguments_as_object
    assert settings.rewrite_ids
    assert settings.require_descriptions
    assert settings.malformed_arguments == "error"
    assert not settings.stream_arguments


def test_each_profile_is_made_of_options_with_allowed_values() -> None:
    assert set(PROFILES) == {"compat", "gateway", "strict"}
    for preset in PROFILES.values():
        for name, value in preset.items():
            assert OPTIONS[name].read(value) == value


@pytest.mark.parametrize(
    ("name", "value"),
    [("malformed_arguments", "text"), ("malformed_arguments", "error"), ("validate_arguments", "warn")],
)
def test_what_must_see_a_whole_call_implies_that_arguments_are_not_streamed(name: str, value: str) -> None:
    given: dict[str, Any] = {name: value, "stream_arguments": True}
    settings = Settings(**given)
    assert not settings.stream_arguments
    assert source(settings, "stream_arguments") == f"implied by {name}={value}"
    harmless = OPTIONS[name].default
    assert settings.replace(**{name: harmless}).stream_arguments


# --- replace, freezing, equality


def test_replace_keeps_what_was_set_by_hand_and_nothing_else() -> None:
    settings = Settings.from_env({"TOOLCALL_RETRIES": "3"}, profile="gateway").replace(profile="compat", mode="off")
    assert (settings.retries, settings.mode, settings.max_schema_depth) == (3, "off", None)
    assert source(settings, "retries") == "environment TOOLCALL_RETRIES"


def test_replace_leaves_the_original_alone() -> None:
    settings = Settings(retries=3)
    settings.replace(retries=4)
    assert settings == Settings(retries=3)


def test_settings_are_frozen() -> None:
    settings = Settings()
    with pytest.raises(AttributeError, match="frozen"):
        settings.mode = "off"
    with pytest.raises(AttributeError, match="frozen"):
        del settings.mode
    assert settings.mode == "prompt"


def test_equal_settings_are_equal_and_hash_alike() -> None:
    one, other = Settings(mode="off"), Settings.from_env({"TOOLCALL_MODE": "OFF"})
    assert one == other
    assert hash(one) == hash(other)
    assert one != Settings()
    assert copy.deepcopy(one) == one
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301 - our own


# --- secrets


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("upstream_key", "hunter2"),
        ("api_keys", "hunter2,hunter3"),
        ("rate_limit_storage", "redis://:hunter2@cache/0"),
        ("upstream_url", "http://me:hunter2@host/v1"),
        ("upstream_url", "http://me:hun@ter2@host/v1"),
    ],
)
def test_secrets_are_not_shown(name: str, given: str) -> None:
    settings = Settings(**{name: given})
    for text in (repr(settings), str(settings), str(settings.explain())):
        assert "hun" not in text
        assert "ter2" not in text
    assert shown(settings, name) in {"(hidden)", "http://***@host/v1"}


@pytest.mark.parametrize(
    ("variable", "given"),
    [
        ("TOOLCALL_UPSTREAM_KEY", "hunter2 x"),
        ("TOOLCALL_API_KEYS", "hunter2 x"),
        ("TOOLCALL_UPSTREAM_URL", "http://me:hunter2@host:port"),
        ("TOOLCALL_UPSTREAM_URL", "http://me:hunter2/@host?"),
    ],
)
def test_errors_do_not_show_secrets(variable: str, given: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Settings.from_env({variable: given})
    assert variable in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_no_secret_says_so() -> None:
    assert shown(Settings(), "upstream_key") == "none"
    assert shown(Settings(), "api_keys") == "none"
    assert repr(Settings()) == "Settings()"


def test_all_mistakes_are_told_at_once() -> None:
    environ = {"TOOLCALL_MODE": "promt", "TOOLCALL_FORMATT": "x", "TOOLCALL_RETRIES": "many", "TOOLCALL_USAGE": "auto"}
    with pytest.raises(SettingsError) as caught:
        Settings.from_env(environ, prose="none")
    lines = str(caught.value).splitlines()
    assert len(lines) == 4
    for name in (
        "TOOLCALL_MODE: 'promt' is",
        "did you mean TOOLCALL_FORMAT?",
        "TOOLCALL_RETRIES:",
        "prose:",
    ):
        assert any(name in line for line in lines)


def test_words_that_are_allowed_are_types_for_editors() -> None:
    text = typed_settings.PATH.read_text("utf-8")
    assert 'mode: Literal["prompt", "native", "auto", "off"] | str' in text
