"""The file of upstreams: what it says, and that each mistake names the file, the table and the key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from toolcall_middleware import Settings, SettingsError
from toolcall_middleware.hosts.proxy.upstream.model_names import Rename
from toolcall_middleware.hosts.proxy.upstream.upstream import UpstreamConfig
from toolcall_middleware.hosts.proxy.upstreams_file import read_upstreams
from toolcall_middleware.settings.toml_text import MAX_BYTES

WHOLE = """
[[upstream]]
name = "local"
models = ["qwen*", "tiny"]
url = "http://127.0.0.1:8000/v1/"
mode = "prompt"
format = "hermes"
timeout = 7
connect_timeout = 2.5
total_timeout = 60
connections = 50
upstream_retries = 0
retries = 3
weight = 2
headers = { X-Team = "blue" }
rename = { fast = "Qwen/Qwen3-4B", "azure/*" = "deploy-*" }
validate_arguments = "warn"

[[upstream]]
url = "https://me:hunter2@up.example/v1"
key_env = "SOME_KEY"
"""


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "upstreams.toml"
    path.write_text(text, "utf-8")
    return str(path)


def read(tmp_path: Path, text: str, **base: Any) -> tuple[UpstreamConfig, ...]:
    return read_upstreams(write(tmp_path, text), Settings(**base))


def test_of_a_header_in_two_spellings_the_last_is_sent(tmp_path: Path) -> None:
    text = "[[upstream]]\nurl='http://a/v1'\nheaders={X-Team='blue', x-team='red'}"
    assert read(tmp_path, text)[0].headers == ((b"x-team", b"red"),)


def test_all_that_can_be_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-from-environment")
    local, other = read(tmp_path, WHOLE, max_tools=9, upstream_timeout=11)
    settings = local.settings
    assert (local.name, local.models, local.weight) == ("local", ("qwen*", "tiny"), 2.0)
    assert settings.upstream_url == "http://127.0.0.1:8000/v1"
    assert (settings.format, settings.mode, settings.validate_arguments, settings.retries) == (
        "hermes",
        "prompt",
        "warn",
        3,
    )
    assert (settings.upstream_timeout, settings.upstream_connect_timeout, settings.upstream_total_timeout) == (
        7,
        2.5,
        60,
    )
    assert (settings.upstream_connections, settings.upstream_retries) == (50, 0)
    assert settings.max_tools == 9
    assert local.headers == ((b"x-team", b"blue"),)
    assert local.rename == (Rename("fast", "Qwen/Qwen3-4B"), Rename("azure/*", "deploy-*"))
    assert (other.name, other.models, other.weight) == ("up.example", ("*",), None)
    assert (other.settings.upstream_key, other.settings.upstream_timeout) == ("sk-from-environment", 11)


def test_no_secret_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-from-environment")
    text = WHOLE.replace("blue", "sk-in-header")
    shown = repr(read(tmp_path, text))
    assert "local" in shown
    assert not any(secret in shown for secret in ("sk-from-environment", "sk-in-header", "hunter2"))


def test_which_models_go_where_and_under_which_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk")
    local, other = read(tmp_path, WHOLE)
    for asked, own in {
        "qwen3": "qwen3",
        "tiny": "tiny",
        "fast": "Qwen/Qwen3-4B",
        "azure/gpt": "deploy-gpt",
        "gpt": None,
        "Qwen3": None,
        "azure": None,
    }.items():
        assert local.serves(asked) is (own is not None), asked
        if own is not None:
            assert local.model_for(asked) == own
    assert other.serves("anything/at:all")
    assert local.literal_models == ("tiny", "fast")
    assert list(local.client_names("deploy-7")) == ["azure/7"]
    assert list(local.client_names("qwen-x")) == ["qwen-x"]
    assert list(local.client_names("other")) == []


def test_a_key_for_one_upstream_is_not_given_to_those_of_the_file(tmp_path: Path) -> None:
    (upstream,) = read(tmp_path, '[[upstream]]\nurl = "http://up.example"\n', upstream_key="sk-single")
    assert upstream.settings.upstream_key is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "there is no upstream"),
        ("upstream = 3", "there is no upstream"),
        ("[[upstreams]]\nurl='http://a'", "upstreams is not a key here; did you mean upstream"),
        ("[[upstream]", "line 1"),
        ("a = " + "[" * 5000, "nested"),
        # Python's int() raises ValueError from 4,301 digits on, and so does repr() of what hex digits spell.
        ("[[upstream]]\nurl='http://a'\nweight=" + "9" * 5000, "64 bits"),
        ("[[upstream]]\nurl='http://a'\nweight=0x" + "f" * 5000, "64 bits"),
        ("[[upstream]]\nname" + ".a" * 5000 + " = 1", "nested"),
        ("[[upstream]]\nurl='http://a'\nrename={a=[-9223372036854775809]}", "64 bits"),
        ("[[upstream]]\nname='a'", r"\[\[upstream\]\] 1 \('a'\): url: it is missing"),
        (
            "[[upstream]]\nurl='ftp://a'",
            r"\[\[upstream\]\] 1: url: 'ftp://a' is not allowed; use an http:// or https://",
        ),
        (
            "[[upstream]]\nurl='http://a/v1/chat/completions/'",
            r"\[\[upstream\]\] 1: url: leave out /chat/completions, which is added: http://a/v1\.",
        ),
        ("[[upstream]]\nurl='http://a'\nmodel=['x']", r"model is not a key here; did you mean models\?"),
        ("[[upstream]]\nurl='http://a'\nmax_tools=3", "max_tools is not a key here"),
        ("[[upstream]]\nurl='http://a'\napi='opnai'", "api: 'opnai' is not allowed; use openai"),
        ("[[upstream]]\nurl='http://a'\nformat='hermess'", r"hermess is not a format; did you mean hermes\?"),
        ("[[upstream]]\nurl='http://a'\nmode='promt'", "mode: 'promt' is not allowed; use prompt"),
        ("[[upstream]]\nurl='http://a'\ntimeout=0", "timeout: 0 is not allowed; use seconds"),
        ("[[upstream]]\nurl='http://a'\nmodels=[]", "models: it is empty"),
        ("[[upstream]]\nurl='http://a'\nmodels=[3]", "models: .* is not allowed"),
        ("[[upstream]]\nurl='http://a'\nrename='x'", "rename: 'x' is not allowed"),
        ("[[upstream]]\nurl='http://a'\n[upstream.rename]\n'a'='b*'", r"rename\.a: 'b\*' is not allowed"),
        ("[[upstream]]\nurl='http://a'\n[upstream.rename]\n'a**'='b'", r"rename\.a\*\*"),
        ("[[upstream]]\nurl='http://a'\nheaders={host='x'}", r"headers\.host"),
        ("[[upstream]]\nurl='http://a'\nheaders={'x-a'=\"sk-1\\nb\"}", r"headers\.x-a: its value is not allowed"),
        ("[[upstream]]\nurl='http://a'\nweight=-1", "weight: -1 is not allowed"),
        ("[[upstream]]\nurl='http://a'\nweight=true", "weight: True is not allowed"),
        ("[[upstream]]\nurl='http://a'\nids='x'", "ids: 'x' is not allowed; use none or mistral"),
        ("[[upstream]]\nurl='http://a'\nkey='sk 1'", r"key: \(hidden\) is not allowed"),
        ("[[upstream]]\nurl='http://a'\nkey=''", "key: it is empty"),
        ("[[upstream]]\nurl='http://a'\nkey='sk-1'\nkey_env='K'", "key_env: there is also `key`"),
        ("[[upstream]]\nurl='http://a'\nkey_env='SURELY_NOT_SET'", "key_env: the variable SURELY_NOT_SET is not set"),
        ("[[upstream]]\nurl='http://a'\nname=''", "name: '' is not allowed"),
        (
            "[[upstream]]\nurl='http://a'\n[[upstream]]\nurl='http://a'",
            r"\[\[upstream\]\] 2: name: 'a' is another one's",
        ),
    ],
)
def test_a_mistake_names_file_table_and_key(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=words) as caught:
        read(tmp_path, text)
    assert str(tmp_path / "upstreams.toml") in str(caught.value)
    assert "sk-1" not in str(caught.value)


def test_all_mistakes_are_named_at_once(tmp_path: Path) -> None:
    text = """
[[upstream]]
url = "ftp://a"
model = ["x"]
weight = -1
timeout = 0
[[upstream]]
name = ""
format = "hermess"
headers = {host = "x"}
url = "http://b"
"""
    with pytest.raises(SettingsError) as caught:
        read(tmp_path, text)
    places = [line.partition("[[upstream]] ")[2] for line in str(caught.value).splitlines()]
    said = [place.partition(" is ")[0].partition("; ")[0] for place in places]
    assert [place[0] for place in places] == ["1"] * 4 + ["2"] * 3
    for word in ("model", "url", "timeout: 0", "weight", "hermess", "name: ''", "headers.host"):
        assert any(word in place for place in said)


def test_the_mark_that_some_editors_write_is_no_part_of_the_file(tmp_path: Path) -> None:
    (upstream,) = read(tmp_path, "\ufeff[[upstream]]\nurl='http://a'")
    assert upstream.name == "a"


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"#" * (MAX_BYTES + 1))
    (tmp_path / "latin").write_bytes(b"# \xe9")
    for name, why in (("pipe", "no file"), ("", "no file"), ("large", "larger than"), ("latin", "not UTF-8")):
        with pytest.raises(SettingsError, match=why):
            read_upstreams(str(tmp_path / name), Settings())


def test_a_file_that_is_not_there_and_two_ways_at_once_are_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml: No such file"):
        read_upstreams(str(tmp_path / "nowhere.toml"), Settings())
    with pytest.raises(SettingsError, match="Both upstream_url and upstreams_file"):
        read(tmp_path, WHOLE, upstream_url="http://a.example")


ALIASED = """
model_aliases = "claude-*=qwen, gpt=tiny"

[[upstream]]
url = "http://127.0.0.1:8000/v1"

[[upstream]]
name = "other"
models = ["none"]
url = "http://127.0.0.1:8001/v1"
model_aliases = ["fable-*=tiny-*"]
"""


@pytest.mark.parametrize(
    "given",
    [
        '"claude-*=qwen, gpt=tiny"',
        '["claude-*=qwen", "gpt=tiny"]',
        '{"claude-*" = "qwen", gpt = "tiny"}',
    ],
)
def test_aliases_stand_before_the_tables(tmp_path: Path, given: str) -> None:
    text = ALIASED.replace('"claude-*=qwen, gpt=tiny"', given)
    one, other = read(tmp_path, text, model_aliases=("*=elsewhere",))
    assert one.settings.model_aliases == other.settings.model_aliases == ("claude-*=qwen", "gpt=tiny")
    assert one.models == ("*",)
    assert other.model_for("fable-2") == "tiny-2"
    assert [name for name in ("none", "fable-2", "claude-9") if other.serves(name)] == ["none", "fable-2"]


def test_without_aliases_of_its_own_the_settings_hold(tmp_path: Path) -> None:
    (one,) = read(tmp_path, '[[upstream]]\nurl = "http://127.0.0.1:1/v1"', model_aliases=("*=qwen",))
    assert one.settings.model_aliases == ("*=qwen",)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('model_aliases = "qwen"\n[[upstream]]\nurl = "http://h/v1"', "model_aliases"),
        ('model_aliases = 7\n[[upstream]]\nurl = "http://h/v1"', "model_aliases"),
        ('model_aliases = {a = ""}\n[[upstream]]\nurl = "http://h/v1"', "model_aliases"),
        ('[[upstream]]\nname = "x"\nurl = "http://h/v1"\nmodel_aliases = "a=*"', "'x'"),
        ('model_alias = "a=b"\n[[upstream]]\nurl = "http://h/v1"', "did you mean model_aliases"),
    ],
)
def test_wrong_aliases_are_named(tmp_path: Path, text: str, where: str) -> None:
    with pytest.raises(SettingsError, match=r"upstreams\.toml") as caught:
        read(tmp_path, text)
    assert where in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second", "warns"),
    [
        ("models=['*']", "models=['qwen*']", True),
        ("models=['qwen*']", "models=['qwen3-*', 'qwen2']", True),
        ("models=['qwen*']", "models=['qwen3-*', 'llama']", False),
        ("models=['*']", "models=['*']", False),
        ("models=['a', 'b']", "models=['a', 'b']", False),
        ("models=['*']", "models=['qwen*']\nweight=1", False),
        ("models=['*']", "rename={fast='x'}", True),
        ("models=['qwen3-*']", "models=['*']", False),
    ],
)
def test_an_upstream_that_another_one_shadows_is_a_warning(
    first: str, second: str, *, warns: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = f"[[upstream]]\nname='one'\nurl='http://a'\n{first}\n"
    read(tmp_path, f"{text}[[upstream]]\nname='two'\nurl='http://b'\n{second}")
    told = [record.getMessage() for record in caplog.records]
    assert [("[[upstream]] 2 ('two'): 'one', before it," in line) for line in told] == [True] * warns
