"""The sections: each gives groups of items, (name, what makes their texts). A group depends on no other."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from tests.bench.fuzzed.damaged import Damaged, golden
from tests.bench.fuzzed.dice import Seeded
from tests.bench.fuzzed.dice import pieces as cut_by

from . import chats, cli, material, product
from .driven import Answer, exchange
from .proxied import proxy

Items = dict[str, str]
Groups = Iterator[tuple[str, Callable[[], Items]]]


@dataclass(frozen=True, slots=True)
class Run:
    """What a run is given. inputs: the file of random exchanges; mutated, seed: how many golden texts are damaged."""

    inputs: Path
    quick: bool = False
    mutated: int = 1000
    seed: int = 1


# -- prompts -----------------------------------------------------------------------------------------------------------


def prompts(_run: Run) -> Groups:
    """What each format writes. `auto` besides as each model is written to."""
    names = product.registry().names()
    yield "names", lambda: {"all": "\n".join(names)}
    for name in names:
        yield from _written(name, partial(product.registry().get, name))
    for model in material.models():
        yield f"model/{model[:80] or 'empty'}", partial(_of_model, model)


def _written(name: str, get: Callable[[], Any]) -> Groups:
    yield f"{name}/itself", partial(_itself, get)
    for key, functions in material.tool_sets().items():
        yield f"{name}/tools-{key}", partial(_tools, get, functions)
    for key, calls in material.call_sets().items():
        yield f"{name}/calls-{key}", partial(_calls, get, calls)
    for key, results in material.result_sets().items():
        yield f"{name}/results-{key}", partial(_results, get, results)


def _itself(get: Callable[[], Any]) -> Items:
    fmt = get()
    return {"name": str(fmt.name), "special": product.text_of(getattr(fmt, "special_tokens", None))}


def _calls(get: Callable[[], Any], calls: list[tuple[str, str, str | None]]) -> Items:
    return {"text": product.said(get().render_calls, [product.call(*given) for given in calls])}


def _results(get: Callable[[], Any], results: list[tuple[str, str, str | None, bool]]) -> Items:
    made = [product.result(name, text, call_id, is_error=error) for name, text, call_id, error in results]
    return {"text": product.said(get().render_results, made)}


def _tools(get: Callable[[], Any], functions: list[dict[str, Any]]) -> Items:
    fmt = get()
    tools = [product.tool(function) for function in functions]
    found = {
        f"parallel-{parallel}": product.said(fmt.render_tools, tools, parallel=parallel) for parallel in (True, False)
    }
    for key, given in material.choices([function["name"] for function in functions]).items():
        mode, named, allowed, parallel = given
        choice = product.choice(mode, named, allowed, parallel=parallel)
        found[f"choice-{key}"] = product.said(fmt.render_choice, tools, choice)
        found[f"constraint-{key}"] = product.said(fmt.constraint, tools, choice)
    return found


def _of_model(model: str) -> Items:
    fmt = product.registry().for_model("auto", model)
    tools = [product.tool(material.WEATHER)]
    call = product.call("get_weather", '{"city": "Paris"}', "call_1")
    return {
        "tools": product.said(fmt.render_tools, tools, parallel=True),
        "calls": product.said(fmt.render_calls, [call]),
        "special": product.text_of(getattr(fmt, "special_tokens", None)),
    }


# -- requests ----------------------------------------------------------------------------------------------------------


def requests(run: Run) -> Groups:
    """What the backend is sent: each request in each format; with each setting in a few; in each mode."""
    asked = chats.requests()
    names = product.registry().names()
    few = [name for name in asked if name.startswith(("plain", "history", "required", "strict"))]
    for name, key in itertools.product(names, few if run.quick else asked):
        yield f"{name}/{key}", partial(_asked, {"format": name}, asked[key])
    if run.quick:
        for key in asked:
            yield f"auto-all/{key}", partial(_asked, {"format": "auto"}, asked[key])
    formats = chats.FORMATS_OF_SETTINGS[:2] if run.quick else chats.FORMATS_OF_SETTINGS
    for (setting, values), name in itertools.product(chats.SETTINGS.items(), formats):
        for key in few if run.quick else asked:
            yield f"{name}-{setting}/{key}", partial(_asked, {"format": name, **values}, asked[key])
    for mode, key in itertools.product(("native", "auto", "auto-refused", "off"), asked):
        yield f"mode-{mode}/{key}", partial(_asked, {"mode": mode.partition("-")[0]}, asked[key], mode)
    for key in ("not json", "[]", "{", '{"model": 1}', '{"model": "m", "tools": [1], "messages": []}', "", "\xff"):
        yield (
            f"broken/{key or 'empty'}",
            partial(exchange, {}, key.encode("latin-1"), [Answer([json.dumps(chats.completion("Hm.")).encode()])]),
        )


def _asked(settings: dict[str, Any], request: dict[str, Any], mode: str = "prompt") -> Items:
    body = {"model": "m", **request}
    answers = [Answer([json.dumps(chats.completion("The weather is fine.", calls=mode == "native")).encode()])]
    if body.get("stream"):
        answers = [Answer(material.chunks("The weather is fine.", [5]), "text/event-stream")]
    if mode == "auto-refused":
        answers = [Answer([json.dumps(chats.REFUSES_TOOLS).encode()], status=400), *answers]
    return exchange(settings, body, answers)


# -- goldens -----------------------------------------------------------------------------------------------------------


def goldens(run: Run) -> Groups:
    """The events of each golden text."""
    for name, cases in material.goldens().items():
        for reader, case in itertools.product((name, "auto"), cases):
            yield f"{name}/{case['id']}/{reader}", partial(_events, reader, case, quick=run.quick)


def _events(reader: str, case: dict[str, Any], *, quick: bool) -> Items:
    functions = None if case.get("tools") is None else [tool["function"] for tool in case["tools"]]
    tools = product.tool_set(functions)
    text = case["text"]
    ways: dict[str, list[str]] = {
        "whole": [text],
        "seed-1": material.cut(text, material.sizes_of(case["id"])),
    }
    if not quick or (reader != "auto" and len(text) < 400):
        ways["characters"] = list(text)
    if not quick:
        ways["seed-2"] = material.cut(text, material.sizes_of(case["id"] + "2", 40))
    variants = {"": case.get("options", {})}
    if not quick:
        variants |= {
            "-raw": {"keep_raw": True, "parse_reasoning": True},
            "-forward": {"unknown_tool": "forward"},
            "-error": {"unknown_tool": "error", "keep_raw": True},
        }
    found: Items = {}
    for variant, options in variants.items():
        made = product.options(**options)
        for way, pieces in ways.items():
            for cut in (
                (False, True) if way == "whole" and not quick else (bool(case.get("cut") or case.get("partial")),)
            ):
                key = f"{way}{variant}{'-cut' if cut else ''}"
                text_of_steps = product.said(_steps, product.registry().get(reader), tools, made, pieces, cut=cut)
                if text_of_steps.startswith(product.RAISED):
                    found[f"{key}-events"] = text_of_steps
                    continue
                steps = json.loads(text_of_steps)
                found[f"{key}-events"] = product.text_of(_joined([event for step in steps for event in step]))
                if way != "whole":
                    found[f"{key}-steps"] = text_of_steps
    return found


def _steps(fmt: Any, tools: Any, options: Any, pieces: list[str], *, cut: bool) -> list[list[Any]]:
    parser = fmt.parser(tools, options)
    steps = [parser.feed(piece) for piece in pieces]
    steps.append(parser.finish(cut=cut))
    return [[product.plain(event) for event in step] for step in steps]


def _joined(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Neighbours that differ in their text only are one."""
    found: list[dict[str, Any]] = []
    for event in events:
        if found and "text" in event and {**found[-1], "text": ""} == {**event, "text": ""}:
            found[-1] = {**event, "text": found[-1]["text"] + event["text"]}
        else:
            found.append(event)
    return found


# -- damaged goldens ---------------------------------------------------------------------------------------------------


def mutated(run: Run) -> Groups:
    """The events of damaged golden texts: each whole, by characters and cut by the dice."""
    for number in range(run.mutated):
        dice = Seeded(run.seed * 10_000_000 + number)
        made = golden(dice)
        reader = "auto" if dice.below(6) == 0 else made.case["format"]
        yield f"{number:06}/{reader}", partial(_damaged, reader, made, cut_by(dice, made.text, 1 + dice.below(30)))


def _damaged(reader: str, made: Damaged, cut: list[str]) -> Items:
    functions = None if made.case.get("tools") is None else [tool["function"] for tool in made.case["tools"]]
    tools, options = product.tool_set(functions), product.options(**made.case.get("options", {}))
    found: Items = {}
    for way, sent in {"whole": [made.text], "characters": list(made.text), "cut": cut}.items():
        text = product.said(_steps, product.registry().get(reader), tools, options, sent, cut=made.cut)
        if not text.startswith(product.RAISED):
            text = product.text_of(_joined([event for step in json.loads(text) for event in step]))
        found[way] = json.dumps({"text": made.text, "cut": made.cut}, ensure_ascii=False) + "\n" + text
    return found


# -- goldens as answers ------------------------------------------------------------------------------------------------


def wire(run: Run) -> Groups:
    """Each golden as an answer."""
    for name, cases in material.goldens().items():
        for at, (reader, case) in enumerate(itertools.product((name, "auto"), cases)):
            if not run.quick or at % 8 == 0:
                yield f"{name}/{case['id']}/{reader}-stream", partial(_golden_answer, reader, case, stream=True)
                yield f"{name}/{case['id']}/{reader}-whole", partial(_golden_answer, reader, case, stream=False)


def _golden_answer(reader: str, case: dict[str, Any], *, stream: bool) -> Items:
    names = {call["name"] for call in case.get("expected_tool_calls") or () if call.get("name")}
    tools = case.get("tools") or [{"type": "function", "function": {"name": name}} for name in sorted(names or {"f"})]
    reason = "length" if case.get("cut") or case.get("partial") else "stop"
    request = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "tools": tools, "stream": stream}
    if stream:
        answer = Answer(material.chunks(case["text"], material.sizes_of(case["id"]), reason), "text/event-stream")
    else:
        answer = Answer([json.dumps(chats.completion(case["text"], reason=reason)).encode()])
    return exchange({"format": reader}, request, [answer])


# -- random exchanges --------------------------------------------------------------------------------------------------


def fuzzed(run: Run) -> Groups:
    """The exchanges of the inputs' file."""
    with run.inputs.open(encoding="utf-8") as lines:
        for line in lines:
            name = line[10:].partition('"')[0]
            if not name.endswith(("-anthropic", "-google")):  # these are of `proxy`
                yield name, partial(_fuzzed, line, quick=run.quick)


def _fuzzed(line: str, *, quick: bool) -> Items:
    given = json.loads(line)
    pieces = [base64.b64decode(piece) for piece in given["sent"]]
    data = b"".join(pieces)
    ways = {"cut": pieces, "one": [data]}
    if not quick:
        ways["events"] = material.events(data)
    if len(data) < 1500 and not quick:
        ways["bytes"] = [data[at : at + 1] for at in range(len(data))]
    request = {**given["request"], "stream": True}
    found: Items = {}
    for way, sent in ways.items():
        made = exchange(given["settings"], request, [Answer(sent, given["kind"], cut=given["cut"])])
        found |= {f"{way}-{key}": text for key, text in made.items() if key in {"answer", "pieces"} or way == "cut"}
    whole = exchange(given["settings"], given["request"], [Answer([json.dumps(given["whole"]).encode()])])
    return found | {f"whole-{key}": text for key, text in whole.items() if key != "pieces"}


# -- recorded answers --------------------------------------------------------------------------------------------------


def recorded(run: Run) -> Groups:
    """Each recorded answer, to what was asked and to what may be asked besides, in each mode."""
    tools = [{"type": "function", "function": material.WEATHER}]
    asks: dict[str, dict[str, Any]] = {
        "as-it-was": {},
        "usage": {"stream_options": {"include_usage": True}},
        "stop": {"stop": ["\n", "e"]},
        "two": {"n": 2},
        "logprobs": {"logprobs": True, "top_logprobs": 1},
        "required": {"tool_choice": "required"},
    }
    settings: dict[str, dict[str, Any]] = {"": {}, "-count": {"usage": "count"}}
    if not run.quick:
        settings |= {
            "-off": {"usage": "off"},
            "-waits": {"stream_arguments": False},
            "-rewritten": {"rewrite_ids": True, "arguments_as_object": True, "extension_field": "_toolcall"},
            "-reasoning": {"reasoning_field": "reasoning"},
        }
    for engine, row in _recordings():
        for mode, ask, setting in itertools.product(("prompt", "native", "auto", "off"), asks, settings):
            if run.quick and ask not in (("usage",) if setting else asks if mode == "prompt" else ("usage", "two")):
                continue
            request = row["request"] if isinstance(row["request"], dict) else {}
            body = {"model": "m", "messages": [{"role": "user", "content": "Go."}], **request}
            body = {**body, "tools": body.get("tools") or tools, **asks[ask]}
            body["stream"] = row["content_type"].startswith("text/event-stream")
            yield (
                f"{engine}/{row['case']}/{mode}{setting}-{ask}",
                partial(_recorded, {"mode": mode, **settings[setting]}, body, row, quick=run.quick),
            )


@cache
def _recordings() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for path in sorted(material.RECORDED.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="") as lines:
            found += [(path.name.partition(".")[0], json.loads(line)) for line in lines]
    for path in sorted(material.RECORDED.glob("*.sse")):
        engine, case, _ = path.name.split(".")
        kind = "text/event-stream; charset=utf-8"
        row = {
            "case": f"{case}.sse",
            "status": 200,
            "content_type": kind,
            "request": None,
            "response": path.read_bytes(),
        }
        found.append((engine, row))
    return found


def _recorded(settings: dict[str, Any], body: dict[str, Any], row: dict[str, Any], *, quick: bool) -> Items:
    data = row["response"] if isinstance(row["response"], bytes) else row["response"].encode()
    ways = {"one": [data]}
    if body["stream"]:
        ways = {"events": material.events(data)}
        if not quick:
            ways["one"] = [data]
            ways["cut"] = [data[at : at + 7] for at in range(0, len(data), 7)]
    found: Items = {}
    for way, pieces in ways.items():
        made = exchange(settings, body, [Answer(pieces, row["content_type"], row["status"])])
        found |= {f"{way}-{key}": text for key, text in made.items()}
    return found


SECTIONS: dict[str, Callable[[Run], Groups]] = {
    "prompts": prompts,
    "requests": requests,
    "goldens": goldens,
    "mutated": mutated,
    "wire": wire,
    "fuzzed": fuzzed,
    "recorded": recorded,
    "proxy": proxy,
    "cli": cli.cli,
}
