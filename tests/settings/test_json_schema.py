"""The schemas of the files for editors: valid, true of what the readers take, and they see what people mistype."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from toolcall_middleware.cli import main
from toolcall_middleware.hosts.proxy.upstreams_schema import of_upstreams_file
from toolcall_middleware.settings import OPTIONS
from toolcall_middleware.settings.json_schema import of_option, of_tenants_file

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "proxy"
TENANTS, UPSTREAMS = of_tenants_file(), of_upstreams_file()
HASH = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
VALUES: tuple[Any, ...] = (
    True, False, 0, 1, -1, 2, 0.5, 10**10, "none", "auto", "64k", "128 KiB", "64x", "on", "a", "a,b", "/a", "a\nb", "",
    "60/minute", "http://x/v1", "ftp://x", "mistral", "reasoning", "tiktoken:x", "x-tenant", "id", [], ["a"], ["/a"],
    ["chat"], ["a=b"], [1], [""], "prompt", "gateway", "a" * 16,
)  # fmt: skip


def faults(schema: dict[str, Any], text: str) -> list[str]:
    return [error.json_path for error in Draft202012Validator(schema).iter_errors(tomllib.loads(text))]


@pytest.mark.parametrize("schema", [TENANTS, UPSTREAMS], ids=["tenants", "upstreams"])
def test_the_schemas_are_schemas(schema: dict[str, Any]) -> None:
    Draft202012Validator.check_schema(schema)


def test_the_examples_fit() -> None:
    assert faults(TENANTS, (EXAMPLES / "tenants.toml").read_text("utf-8")) == []
    assert faults(UPSTREAMS, (EXAMPLES / "upstreams.toml").read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[default]\nmax_tool = 3", "$.default"),
        ("[default]\nmax_tools = -3", "$.default.max_tools"),
        ('[default]\nmax_tools = "many"', "$.default.max_tools"),
        ('[default]\nprofile = "stricct"', "$.default.profile"),
        ('[default]\nmode = "off"', "$.default"),
        ('[tenants.a]\nheader_sha256 = "Bearer KEY"', "$.tenants.a.header_sha256"),
        ('[tenants.a]\nrate_limit = "60"', "$.tenants.a.rate_limit"),
        ("", "$"),
    ],
)
def test_mistakes_in_the_tenants_file_are_seen(text: str, place: str) -> None:
    assert faults(TENANTS, text) == [place]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[[upstream]]\nurls = "http://x"', "$.upstream[0]"),
        ('[[upstream]]\nurl = "http://x"\nmode = "nativ"', "$.upstream[0].mode"),
        ("[[upstream]]\ntimeout = 0", "$.upstream[0].timeout"),
        ("[[upstream]]\nweight = -1", "$.upstream[0].weight"),
        ("[[upstream]]\nrename = { a = 1 }", "$.upstream[0].rename.a"),
        ("upstream = []", "$.upstream"),
        ("", "$"),
    ],
)  # fmt: skip
def test_mistakes_in_the_upstreams_file_are_seen(text: str, place: str) -> None:
    assert faults(UPSTREAMS, text) == [place]


def test_what_people_write_fits() -> None:
    text = """
        model_aliases = { "claude-*" = "qwen" }
        [[upstream]]
        models = "a*"
        url = "http://x/v1"
        timeout = 30
        connections = "none"
        drop_params = ["seed"]
    """
    assert faults(UPSTREAMS, text) == []
    tenants = f"""
        [default]
        max_arguments_bytes = "64 KiB"
        max_tool_rounds = "none"
        allowlist = "search, get_*"
        [tenants.a]
        header_sha256 = ["{HASH}"]
        require_descriptions = true
    """
    assert faults(TENANTS, tenants) == []


@pytest.mark.parametrize("name", OPTIONS)
def test_a_value_that_fits_is_read(name: str) -> None:
    """But for what a type cannot say: whether an address or an expression is one, and how aliases are written."""
    validator = Draft202012Validator(of_option(OPTIONS[name]))
    fitting = [value for value in (*VALUES, *OPTIONS[name].allowed.split(", ")) if validator.is_valid(value)]
    assert fitting
    unsaid = {"tool_name_pattern", "upstream_url", "model_aliases", "paths", "faces", "allowed_hosts", "cors_origins",
              "forward_paths", "api_keys", "tenant_header", "rate_limit_storage", "format"}  # fmt: skip
    for value in fitting if name not in unsaid else ():
        OPTIONS[name].read(value)


def test_the_command_prints_them(capsys: pytest.CaptureFixture[str]) -> None:
    for name, schema in (("tenants", TENANTS), ("upstreams", UPSTREAMS)):
        assert main(["config", "--schema", name]) == 0
        assert json.loads(capsys.readouterr().out) == schema
