"""The inspector's page in a real browser: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import PlainTextResponse

from tests.helpers.fakes import Answer, Refusal, Script, TextBackend, serve, write_calls
from toolcall_middleware import ToolCallMiddleware, create_proxy
from toolcall_middleware.hosts.proxy.inspector.app import Inspector
from toolcall_middleware.hosts.proxy.inspector.store import Store
from toolcall_middleware.observe.traces import Trace

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install playwright")
pytestmark = [
    pytest.mark.client,
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium"),
]

TOKEN = "abcdefghijklmnop"
HOSTILE = (
    "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>"
    "<style>body{display:none}</style>\u202etxet\u202c &lt; \x1b[31m\u200b 🌧 "
)
THOUGHT = "<think>The weather, then.</think>"
CALL = write_calls("hermes", ("weather", {"city": "Paris"}))
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "<b onclick='window.pwned = 3'>The weather.</b>",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield found
        found.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that must not complain, and asks nobody but its own server."""
    context = browser.new_context(
        viewport={"width": 1500, "height": 900}, permissions=["clipboard-read", "clipboard-write"]
    )
    page = context.new_page()
    complaints: list[str] = []
    hosts: set[str] = set()
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: hosts.add(request.url.split("/")[2].partition(":")[0]))
    yield page
    assert complaints == []
    assert hosts <= {"127.0.0.1"}
    assert page.evaluate("window.pwned") is None
    context.close()


def request(
    base: str, text: str = "What is the weather?", *, model: str = "Qwen/Qwen3-8B", stream: bool = True
) -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": text}], "tools": [TOOL], "stream": stream}
    return httpx.post(f"{base}/v1/chat/completions", json=body, timeout=20)


@pytest.fixture(scope="module")
def proxy() -> Iterator[str]:
    """Exchanges 1 to 4: a call after a thought, hostile text, an error, a misspelt tool."""
    scripts: list[Script] = [
        f"{THOUGHT}Let me look. {CALL}",
        f"{HOSTILE}{CALL}",
        Refusal(400, {"error": {"message": HOSTILE}}),
        "Hm. " + write_calls("hermes", ("weathr", {"city": "Paris"})),
        Answer(pieces=("Slowly ", "it ", "comes. ", *("more " for _ in range(30)))),
        "It is warm.",
    ]
    with serve(TextBackend(scripts, pause=0.02)) as backend:
        given = {
            "TOOLCALL_UPSTREAM_URL": f"{backend.removesuffix('/v1')}/v1",
            "TOOLCALL_INSPECTOR": TOKEN,
            "TOOLCALL_MODE": "prompt",
            "TOOLCALL_FORMAT": "hermes",
            "TOOLCALL_ACCESS_LOG": "off",
        }
        before = dict(os.environ)
        os.environ.update(given)
        try:
            app = create_proxy()
        finally:
            os.environ.clear()
            os.environ.update(before)
        with serve(app) as base:
            root = base.removesuffix("/v1")
            for model in ("Qwen/Qwen3-8B", "evil<script>", "broken", "Qwen/Qwen3-8B"):
                request(root, model=model)
            yield root


def opened(page: Any, base: str, number: int = 1) -> Any:
    page.goto(f"{base}/inspect/{TOKEN}/")
    page.locator(f".item[data-number='{number}']").click()
    page.wait_for_function(f"() => location.hash === '#{number}' && !document.querySelector('#exchange').hidden")
    page.wait_for_function("() => document.querySelector('#times').textContent.includes('total')")
    page.wait_for_timeout(150)
    return page


def test_the_list_shows_who_was_asked_and_what_became_of_it(page: Any, proxy: str) -> None:
    page.goto(f"{proxy}/inspect/{TOKEN}/")
    page.wait_for_selector(".item[data-number='4']")
    first = page.locator(".item[data-number='1']").inner_text()
    assert "Qwen/Qwen3-8B" in first
    assert "clean" in first
    assert "prompt/hermes" in first
    assert "400" in page.locator(".item[data-number='3']").inner_text()


def test_one_exchange_stands_side_by_side(page: Any, proxy: str) -> None:
    opened(page, proxy)
    assert "What is the weather?" in page.inner_text("#asked")
    assert "# Tools" in page.inner_text("#prompt .injected >> nth=1")
    assert page.inner_text("#prompt pre.own") == "What is the weather?"
    assert page.inner_text("#wrote .run.reasoning") == "The weather, then."
    assert "Let me look." in page.inner_text("#wrote .run.text")
    assert '"city": "Paris"' in page.inner_text("#wrote .run.call")
    assert "weather" in page.inner_text("#got .delta.call >> nth=0")
    assert "hermes" in page.inner_text("#why")


def test_what_is_not_known_is_left_out(page: Any, proxy: str) -> None:
    for number in range(1, 5):
        opened(page, proxy, number)
        assert "null" not in page.inner_text("#head")
        assert "undefined" not in page.inner_text("#exchange")


def test_hostile_text_is_only_text(page: Any, proxy: str) -> None:
    opened(page, proxy, 2)
    wrote = page.inner_text("#wrote .body")
    assert "<script>window.pwned = 1</script>" in wrote
    assert "\u202e" not in page.content()
    assert "⍰txet⍰" in wrote
    assert "␛[31m" in wrote
    assert page.locator("#wrote script, #wrote img, #wrote style, #asked b, #got script").count() == 0
    opened(page, proxy, 3)
    assert "window.pwned" in page.inner_text("#exchange")


def test_a_character_is_mapped_to_its_piece_and_its_delta(page: Any, proxy: str) -> None:
    opened(page, proxy)
    box = page.locator("#wrote .run.text >> nth=0").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + box["height"] / 2)
    page.mouse.click(box["x"] + 20, box["y"] + box["height"] / 2)
    page.wait_for_selector("#got .delta.on")
    place = page.inner_text("#place")
    assert "prose" in place
    row = page.locator("#got .delta.on").first.get_attribute("data-row")
    assert f"left by delta {row}" in place
    assert page.evaluate("CSS.highlights.has('piece')")


def test_a_delta_leads_back_to_its_text(page: Any, proxy: str) -> None:
    opened(page, proxy)
    page.locator("#got .delta.text", has_text="look").first.click()
    assert "is made of characters" in page.inner_text("#place")
    assert page.evaluate("CSS.highlights.has('piece')")


def test_a_call_that_was_none_says_why(page: Any, proxy: str) -> None:
    opened(page, proxy, 4)
    assert "unknown name `weathr`, did you mean `weather`?" in page.inner_text("#why")
    assert page.evaluate("[...CSS.highlights.get('fault')].map(String)")[0].startswith("<tool_call>")


def test_the_list_is_filtered(page: Any, proxy: str) -> None:
    page.goto(f"{proxy}/inspect/{TOKEN}/")
    page.wait_for_selector(".item[data-number='4']")
    for text, numbers in (
        ("is:error", ["3"]),
        ("model:evil", ["2"]),
        ("qwen outcome:clean", ["1"]),
        ("status:400", ["3"]),
    ):
        page.fill("#filter", text)
        shown = page.eval_on_selector_all(".item", "items => items.map((item) => item.dataset.number)")
        assert shown == numbers, text


def test_the_models_text_is_searched(page: Any, proxy: str) -> None:
    opened(page, proxy)
    page.keyboard.press("f")
    page.keyboard.type("let ME")
    assert page.inner_text("#found") == "1/1"
    assert page.evaluate("CSS.highlights.has('current')")
    page.fill("#find", "nowhere to be found")
    assert page.inner_text("#found") == "none"


def test_keys_do_what_they_say(page: Any, proxy: str) -> None:
    page.goto(f"{proxy}/inspect/{TOKEN}/")
    page.wait_for_selector(".item[data-number='4']")
    newest = int(page.locator(".item").first.get_attribute("data-number"))
    page.keyboard.press("j")
    page.wait_for_function(f"() => location.hash === '#{newest}'")
    page.keyboard.press("j")
    page.wait_for_function(f"() => location.hash === '#{newest - 1}'")
    page.keyboard.press("k")
    page.wait_for_function(f"() => location.hash === '#{newest}'")
    page.keyboard.press("2")
    assert page.is_hidden("#prompt")
    page.keyboard.press("2")
    assert page.is_visible("#prompt")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "filter"
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert page.is_visible("dialog#help")


def test_an_exchange_is_copied_as_curl(page: Any, proxy: str) -> None:
    opened(page, proxy)
    page.click("#curl")
    page.wait_for_selector("#toast:not([hidden])")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(f"curl '{proxy}/v1/chat/completions' -H 'content-type: application/json' --data-raw '")
    data = copied.split("--data-raw ")[1][1:-1].replace("'\\''", "'")
    assert json.loads(data)["tools"] == [TOOL]


def test_an_exchange_is_saved_as_a_case(page: Any, proxy: str, tmp_path: Path) -> None:
    opened(page, proxy)
    with page.expect_download() as download:
        page.keyboard.press("s")
    path = tmp_path / "case.json"
    download.value.save_as(path)
    case = json.loads(path.read_text("utf-8"))
    assert case["expected_tool_calls"][0]["arguments"] == {"city": "Paris"}


def test_the_page_is_dark_where_the_system_is_and_on_demand(page: Any, proxy: str) -> None:
    red = "parseInt(getComputedStyle(document.body).backgroundColor.split('(')[1])"
    page.emulate_media(color_scheme="dark")
    page.goto(f"{proxy}/inspect/{TOKEN}/")
    page.wait_for_selector(".item[data-number='4']")  # the page's script has run
    page.wait_for_function(f"{red} < 60")
    page.click("#theme")
    page.wait_for_function(f"{red} > 200")
    page.reload()
    page.wait_for_function(f"{red} > 200")


def test_the_timeline_is_drawn(page: Any, proxy: str) -> None:
    opened(page, proxy)
    assert "first call" in page.inner_text("#times")
    drawn = page.evaluate(
        "() => { const c = document.querySelector('#time');"
        " const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " return new Set(Array.from({length: d.length / 4}, (_, i) => `${d[4*i]},${d[4*i+1]},${d[4*i+2]}`)).size; }"
    )
    assert drawn > 4


def test_what_streams_is_seen_as_it_streams(page: Any, proxy: str) -> None:
    page.goto(f"{proxy}/inspect/{TOKEN}/")
    page.wait_for_selector(".item[data-number='4']")
    asking = threading.Thread(target=request, args=(proxy,))
    asking.start()
    try:
        page.wait_for_selector(".item.running", timeout=10_000)
        page.locator(".item.running").click()
        page.wait_for_selector("#wrote .run.text", timeout=10_000)
        assert "Slowly" in page.inner_text("#wrote")
    finally:
        asking.join()
    page.wait_for_selector(".item.running", state="detached", timeout=10_000)
    page.wait_for_function(
        "() => document.querySelector('#wrote').textContent.match(/more/g)?.length === 30", timeout=10_000
    )


def stored(store: Store) -> Inspector:
    return Inspector(PlainTextResponse("", 404), store, TOKEN)


def chunk(text: str) -> str:
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': {'content': text}}]})}\n\n"


def test_a_thousand_exchanges_are_a_list_that_scrolls(page: Any) -> None:
    store = Store()
    for number in range(1100):
        store.add(Trace({"id": f"r{number}", "model": f"m{number}", "time": 1.8e9, "status": 200, "end": "complete"}))
    with serve(stored(store)) as base:
        root = base.removesuffix("/v1")
        page.goto(f"{root}/inspect/{TOKEN}/")
        page.wait_for_selector(".item")
        assert page.inner_text("#count") == "1000 of 1000 exchanges"
        assert page.locator(".item").count() < 60
        page.locator("#list").evaluate("node => { node.scrollTop = node.scrollHeight; }")
        page.wait_for_selector(".item[data-number='101']")
        page.fill("#filter", "model:m777")
        assert page.locator(".item").count() == 1
        page.goto("about:blank")


def test_a_megabyte_on_one_line_is_shown_within_seconds(page: Any) -> None:
    rows = [{"at": 0.0, "kind": "request", "data": json.dumps({"model": "m", "messages": [], "tools": [TOOL]})}]
    rows.append({"at": 1.0, "kind": "ask", "data": "{}"})
    line = "0123456789abcde🌧" * 4
    for number in range(16_400):
        data = chunk(line if number != 9000 else f"{HOSTILE}needle")
        rows.append({"at": 2.0 + number, "kind": "backend", "data": data})
        rows.append({"at": 2.1 + number, "kind": "client", "data": data, "of": len(rows) - 1})
    store = Store()
    store.add(
        Trace({"id": "big", "model": "big", "time": 1.8e9, "status": 200, "end": "complete", "ended": 16_500}, rows)
    )
    with serve(stored(store)) as base:
        begin = time.monotonic()
        opened(page, base.removesuffix("/v1"))
        page.wait_for_function(
            "() => document.querySelector('#wrote pre')?.textContent.length > 1_000_000", timeout=20_000
        )
        page.fill("#find", "needle")
        assert page.inner_text("#found") == "1/1"
        assert time.monotonic() - begin < 20
        assert page.locator("#got .delta").count() < 100
        page.goto("about:blank")


def test_a_request_on_a_face_is_shown_in_its_own_words_too(page: Any) -> None:
    rows = [
        {"at": 0.0, "kind": "face_request", "api": "messages",
         "data": json.dumps({"model": "claude", "max_tokens": 5, "messages": [{"role": "user", "content": HOSTILE}]})},
        {"at": 0.1, "kind": "request", "data": json.dumps({"model": "claude", "messages": [], "tools": [TOOL]})},
        {"at": 1.0, "kind": "client", "of": 1, "data": "data: [DONE]\n\n"},
        {"at": 1.1, "kind": "face", "data": 'event: message_start\ndata: {"type":"message_start"}\n\n'
                                           f'event: content_block_delta\ndata: {json.dumps({"text": HOSTILE})}\n\n'},
    ]  # fmt: skip
    store = Store()
    summary = {"id": "a", "time": 1.0, "api": "messages", "path": "/v1/messages", "model": "claude", "ended": 2.0,
               "calls": 0, "outcomes": [], "attempts": []}  # fmt: skip
    store.add(Trace(summary, rows))
    with serve(Inspector(PlainTextResponse("no"), store, TOKEN)) as base:
        page.goto(f"{base}/inspect/{TOKEN}/")
        page.locator(".item").first.click()
        page.locator("#own summary").click()
        assert "as it came: messages" in page.locator("#own").inner_text()
        assert '"max_tokens": 5' in page.locator("#own pre").inner_text()
        page.locator(".delta.face").first.wait_for()
        assert page.locator(".delta:not(.face)").count() == 0
        assert page.locator(".delta.face").first.inner_text().split("\n")[-1].startswith("message_start {")


FACES: dict[str, dict[str, Any]] = {
    "messages": {
        "max_tokens": 50,
        "messages": [{"role": "user", "content": "Weather?"}],
        "tools": [{"name": "weather", "input_schema": TOOL["function"]["parameters"]}],
    },
    "responses": {
        "input": "Weather?",
        "tools": [{"type": "function", "name": "weather", "parameters": TOOL["function"]["parameters"]}],
    },
}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", FACES)
def test_on_a_face_the_client_got_what_left_for_it(page: Any, api: str, *, stream: bool) -> None:
    app = ToolCallMiddleware(
        TextBackend([f"Let me look. {CALL}"]), mode="prompt", format="hermes", faces="chat,messages,responses"
    )
    store = Store()
    app._observers = [store]
    with serve(app) as base, serve(stored(store)) as shown:
        body = {"model": "m", "stream": stream, **FACES[api]}
        assert httpx.post(f"{base.removesuffix('/v1')}/v1/{api}", json=body, timeout=20).status_code == 200
        opened(page, shown.removesuffix("/v1"))
        got = {
            kind: "".join(page.locator(f"#got .delta.{kind} .said").all_text_contents()) for kind in ("text", "call")
        }
        assert got["text"].strip() == "Let me look."
        assert got["call"].startswith("weather ")
        assert '"Paris"' in got["call"]
        assert page.locator("#got .delta.role").count() == 0
        page.locator("#got .delta.text").first.click()
        assert "is made of characters 0" in page.inner_text("#place")
        page.goto("about:blank")


def conversation(base: str) -> None:
    """Three requests of an agent: a question, a result, another question."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "What does greet.py do?"},
    ]
    call = {"id": "call_" + "a" * 24, "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    more = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "the result of the tool"},
    ]
    for asked in (messages, [*messages, *more], [*messages, *more, {"role": "user", "content": "And why?"}]):
        body = {"model": "m", "messages": asked, "tools": [TOOL], "stream": True}
        httpx.post(f"{base}/v1/chat/completions", json=body, timeout=20)


@pytest.fixture(scope="module")
def agent() -> Iterator[str]:
    """Exchanges 1 to 3 of one conversation, and 4 of another."""
    scripts: list[Script] = [CALL, CALL, "Because.", "Other."]
    store = Store()
    app = ToolCallMiddleware(TextBackend(scripts, pause=0), mode="prompt", format="hermes")
    app._observers = [store]
    page = Inspector(app, store, TOKEN)
    with serve(page) as base:
        root = base.removesuffix("/v1")
        conversation(root)
        request(root, "Something else")
        yield root


def test_rows_are_titled_and_grouped_by_conversation(page: Any, agent: str) -> None:
    page.goto(f"{agent}/inspect")  # the stable address
    page.wait_for_selector(".item[data-number='4']")
    shown = page.locator(".item")
    titles = [shown.nth(at).locator(".model").inner_text() for at in range(4)]
    assert titles == ["Something else", "And why?", "weather Paris", "What does greet.py do?"]
    assert [("inside" in shown.nth(at).get_attribute("class")) for at in range(4)] == [False, False, True, True]


def test_what_is_new_in_a_turn_is_marked_and_the_rest_is_folded(page: Any, agent: str) -> None:
    opened(page, agent, 3)
    assert page.locator("#asked details.system[open], #asked details.tools[open]").count() == 0
    assert "You are an agent." not in page.inner_text("#asked")
    assert page.locator("#asked .message.new").count() == 1
    assert "And why?" in page.inner_text("#asked .message.new")
    opened(page, agent, 1)
    assert page.locator("#asked .message.new").count() == 0


def test_the_whole_content_is_filtered_and_escape_clears(page: Any, agent: str) -> None:
    page.goto(f"{agent}/inspect/{TOKEN}/")
    page.wait_for_selector(".item[data-number='4']")
    page.fill("#filter", "result of the tool")
    page.wait_for_function("() => document.querySelectorAll('.item').length === 2")
    page.fill("#filter", "no such words anywhere")
    page.wait_for_selector("#nothing:not([hidden])")
    assert page.locator(".item").count() == 0
    page.press("#filter", "Escape")
    page.wait_for_function("() => document.querySelectorAll('.item').length === 4")
    assert page.input_value("#filter") == ""
    assert page.locator("#nothing").is_hidden()


def test_bad_news_comes_with_the_setting_that_helps(page: Any, proxy: str) -> None:
    opened(page, proxy, 4)
    assert "unknown_tool decides" in page.inner_text("#news")
    assert "No call came (unknown_tool): offer the tool that it names" in page.inner_text("#news")
    opened(page, proxy, 3)
    assert "The client got 400" in page.inner_text("#news")
    opened(page, proxy, 1)
    assert page.inner_text("#news") == ""


@pytest.mark.parametrize("width", [400, 700, 1000])
def test_a_narrow_window_shows_all_of_it(page: Any, agent: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    opened(page, agent, 2)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#asked").is_visible()
    for part in ("#head", "#tools", "#times", "#trace", "#time"):
        box = page.locator(part).bounding_box()
        assert box["x"] + box["width"] <= width


def test_the_text_is_read_again_as_another_format(page: Any, proxy: str) -> None:
    opened(page, proxy)
    page.select_option("#format", "pythonic")
    page.wait_for_function("() => document.querySelector('#reread').textContent.includes('As pythonic: 0 calls')")
    page.select_option("#format", "auto")
    page.wait_for_function("() => document.querySelector('#reread').textContent.includes('As auto: 1 call')")
    assert '"city": "Paris"' in str(page.text_content("#reread pre"))
    page.locator(".item[data-number='2']").click()
    page.wait_for_function("() => document.querySelector('#reread').hidden")


def test_a_request_is_edited_and_sent_again(page: Any, proxy: str) -> None:
    opened(page, proxy)
    page.keyboard.press("e")
    body = json.loads(page.input_value("#edited"))
    assert body["messages"][0]["content"] == "What is the weather?"
    page.fill("#edited", "{")
    page.click("#go")
    page.wait_for_function("() => document.querySelector('#sent').textContent.startsWith('This is not JSON')")
    body["messages"][0]["content"] = "And in Rome?"
    page.fill("#edited", json.dumps({**body, "model": "edited"}))
    page.click("#go")
    page.wait_for_function("() => !document.querySelector('#send').open")
    page.wait_for_function("() => document.querySelector('#list').textContent.includes('And in Rome?')")


@pytest.mark.parametrize("number", [1, 2, 3])
def test_the_saved_page_of_an_exchange_is_whole_and_harmless(
    page: Any, proxy: str, number: int, tmp_path: Path
) -> None:
    opened(page, proxy, number)
    with page.expect_download() as started:
        page.click("#report")
    file = tmp_path / started.value.suggested_filename
    started.value.save_as(file)
    saved = file.read_text("utf-8")
    assert "<script" not in saved
    assert "://" not in saved
    assert TOKEN not in saved
    alone = page.context.new_page()
    alone.goto(file.as_uri())
    shown = alone.inner_text("body")
    assert alone.evaluate("window.pwned") is None
    assert "What is the weather?" in shown
    assert ('{"city": "Paris"}' if number < 3 else "<script>window.pwned = 1</script>") in shown
