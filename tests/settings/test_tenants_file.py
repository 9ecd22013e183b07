"""The tenants file: what it may say, who is who, and that a mistake is named by file, line and key."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.errors import SettingsError
from toolcall_middleware.settings import MAXIMA, OPTIONS, PROFILES, Settings
from toolcall_middleware.settings.tenants_file import ALLOWED, Tenants, _Reader, hash_of, read_tenants, without_file

KEY = b"Bearer sk-one"
HASH = hashlib.sha256(KEY).hexdigest()
OTHER = hashlib.sha256(b"Bearer sk-two").hexdigest()


def test_the_mark_that_some_editors_write_is_no_part_of_the_file() -> None:
    assert read("\ufeff[default]\nmax_tools = 3").default.max_tools == 3


def read(text: str, **settings: Any) -> Tenants:
    return read_tenants(text, "t.toml", Settings(**settings))


FILE = f"""
[default]
max_tools = 20            # for all

[tenants.research]
header_sha256 = "{HASH}"
profile = "gateway"
rate_limit = "600/hour"
allowlist = ["search", "get_*"]
max_arguments_bytes = "128KiB"
validate_arguments = "error"

[tenants."key named"]
max_tools = 10
max_tool_calls = "none"

[tenants.two]
header_sha256 = ["{OTHER.upper()}"]
"""


def test_a_table_lies_on_the_default_and_that_on_the_operators_settings() -> None:
    tenants = read(FILE, max_tools=30, retries=0)
    research = tenants.by_name["research"]
    assert (research.max_tools, research.retries, research.rate_limit) == (20, 0, "600/hour")
    assert (research.max_schema_depth, research.max_arguments_bytes) == (5, 128 * 1024)
    assert (research.allowlist, research.allowlist_mode) == (("search", "get_*"), "enforce")
    assert research.source("max_tools") == "file t.toml"
    assert research.source("rate_limit") == "tenant research (t.toml)"
    assert research.source("max_schema_depth") == "profile gateway"
    assert research.source("retries") == "keyword"
    assert (tenants.by_name["key named"].max_tools, tenants.by_name["key named"].max_tool_calls) == (10, None)


def test_who_asks_is_told_by_name_or_hash() -> None:
    tenants = read(FILE)
    assert tenants.find(None, KEY).key == "tenant:research"
    assert tenants.find(None, KEY).settings is tenants.by_name["research"]
    assert tenants.find(None, b"Bearer sk-two").key == "tenant:two"
    assert tenants.find("key named", KEY).key == "tenant:key named"
    assert tenants.find("unknown", KEY).key == "tenant:research"
    assert tenants.find("unknown", None).key == "tenant:unknown"
    assert tenants.find("unknown", None).settings is tenants.default
    stranger = tenants.find(None, b"Bearer sk-three")
    assert stranger.key == "header:" + hashlib.sha256(b"Bearer sk-three").hexdigest()
    assert stranger.settings is tenants.default
    assert tenants.find(None, None).key == "anonymous"


def test_another_spelling_of_a_header_is_the_same_tenant() -> None:
    for spelled in (b"bearer sk-one", b"BEARER  sk-one ", b" Bearer sk-one"):
        assert hash_of(spelled) == HASH
    assert hash_of(b"sk-one") == hashlib.sha256(b"sk-one").hexdigest()
    assert hash_of(b"team one") != hash_of(b"Team one")


def test_without_a_file_tenants_differ_in_their_rates_only() -> None:
    settings = Settings()
    one, other = without_file(settings).find(None, KEY), without_file(settings).find("x", None)
    assert one.settings is other.settings is settings
    assert one.key != other.key
    assert "sk-one" not in one.key


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tenants.a\nx = 1", ["t.toml: ", "line 1"]),
        ("a = 1\nb = ]", ["line 2"]),
        ("[tenant.a]\nmax_tools = 1", ["line 1", "tenant:", "[tenants.NAME]"]),
        ("tenants = 3", ["tenants:", "tables"]),
        ("[tenants]\na = 3", ["line 2", "tenants.a:", "table"]),
        ("default = 3", ["line 1", "default:", "table"]),
        ("[default]\n\nmax_tools = 'many'", ["line 3", "default.max_tools:", "'many'", "an integer of at least 0"]),
        ("[tenants.a]\nmax_tools = 1\n[tenants.b]\nmax_tools = -1", ["line 4", "tenants.b.max_tools:"]),
        ("[tenants.'a.b']\n max_tool = 1", ["line 2", "tenants.a.b.max_tool:", "is not a setting", "max_tools"]),
        ("[tenants.a]\nmax_tool = 1", ["line 2", "is not a setting; did you mean max_tools?"]),
        ("[tenants.a]\nheaders_sha256 = 'x'", ["did you mean header_sha256?"]),
        ("[tenant.a]\nmax_tools = 1", ["did you mean tenants?"]),
        ("[tenants.a]\nmode = 'off'", ["line 2", "tenants.a.mode:", "cannot be set for a tenant"]),
        ("[tenants.a]\nupstream_key = 'x'", ["line 2", "cannot be set for a tenant"]),
        ("[tenants.a]\nrate_limit = '60'", ["line 2", "60/minute"]),
        ("[tenants.a]\nallowlist = [1]", ["line 2", "tenants.a.allowlist:"]),
        ("[tenants.a]\nprofile = 'lax'", ["line 2", "compat, gateway, strict"]),
        ("[tenants]\na = {max_tools = 'x'}", ["t.toml", "tenants.a.max_tools:"]),
        ("[tenants.a]\nheader_sha256 = 'short'", ["line 2", "tenants.a.header_sha256:", "64 hex digits"]),
        (
            f"[tenants.a]\nheader_sha256 = '{HASH}'\n[tenants.b]\nheader_sha256 = '{HASH}'",
            ["line 4", "tenants.b.header_sha256:", "'a' has the same"],
        ),
        ("[tenants.' ']\nmax_tools = 1", ["a name"]),
        ("[tenants.a]\nheader_sha256 = 5", ["line 2", "64 hex digits"]),
        ("a = " + "[" * 5000, []),
        # Python's int() raises ValueError from 4,301 digits on, and so does repr() of what hex digits spell.
        ("[default]\nmax_tools = " + "9" * 5000, ["64 bits"]),
        ("[default]\nmax_tools = 0x" + "f" * 5000, ["64 bits"]),
        ("[default]\nmax_tools" + ".a" * 5000 + " = 1", ["nested"]),
        ("[default]\nallowlist = [{a = [9223372036854775808]}]", ["64 bits"]),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, says: list[str]) -> None:
    with pytest.raises(SettingsError) as raised:
        read(text)
    for word in ["t.toml", *says]:
        assert word in str(raised.value)


VALUES = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["none", "off", "strict", HASH]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
TABLE = st.dictionaries(st.sampled_from([*sorted(ALLOWED), "header_sha256", "mode", "x"]), VALUES, max_size=3)


@pytest.mark.slow
@given(
    st.fixed_dictionaries(
        {}, optional={"default": TABLE | VALUES, "tenants": st.dictionaries(st.text(), TABLE | VALUES)}
    )
)
def test_whatever_a_file_holds_it_is_read_or_refused(tables: dict[str, Any]) -> None:
    with contextlib.suppress(SettingsError):
        _Reader("", "t.toml", Settings()).read(tables)


def test_a_secret_in_place_of_a_hash_is_not_shown() -> None:
    with pytest.raises(SettingsError) as raised:
        read("[tenants.a]\nheader_sha256 = ['Bearer sk-hunter2']")
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(("name", "most"), MAXIMA["gateway"].items())
def test_a_tenant_of_the_gateway_is_given_no_more_than_its_maxima(name: str, most: int) -> None:
    for base, line in (("gateway", ""), ("compat", 'profile = "gateway"\n')):
        assert getattr(read(f"[tenants.a]\n{line}{name} = {most}", profile=base).by_name["a"], name) == most
        assert getattr(read(f"[tenants.a]\n{line}{name} = {most - 1}", profile=base).by_name["a"], name) == most - 1
        for value in (f"{most + 1}", '"none"'):
            with pytest.raises(SettingsError, match=rf"tenants\.a\.{name}: .* more than the {most}"):
                read(f"[tenants.a]\n{line}{name} = {value}", profile=base)
    assert getattr(read(f"[tenants.a]\n{name} = {most + 1}").by_name["a"], name) == most + 1


def test_the_gateways_maxima_are_not_left_by_another_profile() -> None:
    with pytest.raises(SettingsError, match=r"t\.toml, line 1: tenants\.a\.max_"):
        read("[tenants.a]\nprofile = 'compat'\n", profile="gateway")
    # What the operator set by hand is the operator's.
    assert read("[tenants.a]\nmax_tools = 3", profile="gateway", max_tool_calls=99).by_name["a"].max_tool_calls == 99


def test_the_maxima_are_the_contracts() -> None:
    assert dict(MAXIMA) == {
        "gateway": {
            "max_description_length": 4096,
            "max_schema_depth": 10,
            "max_arguments_bytes": 256 * 1024,
            "max_tool_calls": 50,
        }
    }
    assert all(PROFILES["gateway"][name] <= most for name, most in MAXIMA["gateway"].items())


def test_the_example_is_as_it_says() -> None:
    path = Path(__file__).parent.parent.parent / "examples" / "proxy" / "tenants.toml"
    tenants = read_tenants(path.read_text("utf-8"), "tenants.toml", Settings())
    assert tenants.default.rate_limit == "60/minute"
    research = tenants.find(None, b"Bearer sk-research").settings
    assert (research.rate_limit, research.max_tool_rounds, research.max_tool_calls) == ("600/minute", 30, 20)
    bots = tenants.find("bots", None).settings
    assert (bots.allowlist, bots.allowlist_mode, bots.rate_limit) == (("search", "get_*"), "enforce", "60/minute")


def test_what_a_tenant_may_be_given() -> None:
    assert {name for name in OPTIONS if name.startswith("max_")} <= ALLOWED
    assert {"allowlist", "allowlist_mode", "rate_limit", "profile", "validate_arguments"} <= ALLOWED
    assert not ALLOWED & {"mode", "paths", "upstream_key", "api_keys", "tenants_file", "rate_limit_storage", "format"}


def test_all_mistakes_are_named_at_once() -> None:
    with pytest.raises(SettingsError) as raised:
        read(
            "[default]\nmax_tools = -1\n[tenants.a]\nmax_tool = 1\nrate_limit = '60'\nheader_sha256 = 'x'\n[tenant.b]\n"
        )
    places = [line.partition(": ")[2].partition(":")[0] for line in str(raised.value).splitlines()]
    assert places == [
        "tenant",
        "default.max_tools",
        "tenants.a.header_sha256",
        "tenants.a.max_tool",
        "tenants.a.rate_limit",
    ]
