// One exchange, side by side.
import { Rows, el, ms, visible } from "./dom.js";
import { failed, grade } from "./list.js";
import { ModelText, light } from "./text.js";
import { drawTimeline } from "./timeline.js";

const $ = (selector) => document.querySelector(selector);
const body = (id) => $(`#${id} .body`);
const pretty = (value) => visible(JSON.stringify(value, null, 2) ?? "");

function parse(text) {
  try { return JSON.parse(text); } catch { return null; }
}

// What a client reads out of the bytes that left.
export function said(row) {
  if (row.kind === "error") return [["error", `${row.code}: ${row.message}`]];
  const data = row.data;
  if (row.kind === "face") return faced(data);
  const events = data.trimStart().startsWith("{") ? [data] : data.split(/\r?\n\r?\n/).map((event) => event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n")).filter(Boolean);
  const found = [];
  for (const event of events) {
    if (event === "[DONE]") { found.push(["end", "[DONE]"]); continue; }
    const chunk = parse(event);
    if (!chunk) { found.push(["text", event]); continue; }
    if (chunk.error) found.push(["error", chunk.error.message ?? JSON.stringify(chunk.error)]);
    for (const choice of chunk.choices ?? []) {
      const delta = choice.delta ?? choice.message ?? {};
      const thought = delta.reasoning ?? delta.reasoning_content;
      if (thought) found.push(["reasoning", thought]);
      if (delta.content) found.push(["text", delta.content]);
      for (const call of delta.tool_calls ?? []) {
        const name = call.function?.name ?? call.custom?.name;
        found.push(["call", `${name ? `${name} ` : ""}${typeof call.function?.arguments === "string" ? call.function.arguments : JSON.stringify(call.function?.arguments ?? call.custom?.input ?? "")}`]);
      }
      if (choice.finish_reason) found.push(["finish", choice.finish_reason]);
      if (!found.length && delta.role) found.push(["role", delta.role]);
    }
    if (chunk.usage) found.push(["usage", `${chunk.usage.prompt_tokens} → ${chunk.usage.completion_tokens}`]);
  }
  return found.length ? found : [["", data.trim().slice(0, 200)]];
}

// The same of an answer in Messages' or Responses' own form.
function faced(data) {
  const whole = data.trimStart().startsWith("{") ? parse(data) : null;
  if (whole) {
    const found = [];
    for (const item of [...(whole.content ?? []), ...(whole.output ?? [])]) {
      if (item.type === "thinking" || item.type === "reasoning") found.push(["reasoning", item.thinking ?? (item.summary ?? item.content ?? []).map((part) => part.text).join(" ")]);
      else if (item.name) found.push(["call", `${item.name} ${item.arguments ?? JSON.stringify(item.input ?? "")}`]);
      else found.push(["text", item.text ?? (item.content ?? []).map((part) => part.text ?? part.refusal).join("")]);
    }
    if (whole.error) found.push(["error", whole.error.message ?? JSON.stringify(whole.error)]);
    if (whole.stop_reason ?? whole.status) found.push(["finish", whole.stop_reason ?? whole.status]);
    return found.length ? found : [["event", data.trim()]];
  }
  return data.split(/\r?\n\r?\n/).filter((event) => event.trim()).map((event) => {
    const [, type, text] = /^event: ?(\S+)\r?\ndata: ?([^]*)$/.exec(event.trim()) ?? [null, "", event.trim()];
    const value = parse(text);
    const delta = value?.delta;
    const started = value?.content_block ?? (type === "response.output_item.added" ? value?.item : null);
    if (typeof delta === "string") return [/arguments|input/.test(type) ? "call" : /reasoning/.test(type) ? "reasoning" : "text", delta];
    if (typeof delta?.text === "string") return ["text", delta.text];
    if (typeof delta?.thinking === "string") return ["reasoning", delta.thinking];
    if (typeof delta?.partial_json === "string") return ["call", delta.partial_json];
    if (delta?.stop_reason) return ["finish", delta.stop_reason];
    if (started?.name) return ["call", `${started.name} `];
    if (type === "error" || type === "response.failed") return ["error", text];
    return ["event", `${type} ${text}`.trim()];
  });
}

export class Exchange {
  constructor(hover) {
    this.hover = hover;
    this.data = null;
    this.known = 0; // messages that the request before this one had
    this.text = null;
    this.found = [];
    this.current = -1;
    this.deltas = new Rows(body("got"), 24, (one) => this.delta(one));
    this.lit = null;
    const place = body("wrote");
    place.addEventListener("mousemove", (event) => this.point(event, false));
    place.addEventListener("click", (event) => this.point(event, true));
    new ResizeObserver(() => this.data && drawTimeline($("#time"), this.data.summary, this.data.rows)).observe($("#time"));
  }

  show(data, fresh) {
    this.data = data;
    const wrote = body("wrote");
    const stuck = !fresh && wrote.scrollTop + wrote.clientHeight >= wrote.scrollHeight - 40;
    this.head();
    this.news();
    if (fresh) { this.asked(); light("piece", []); this.lit = null; $("#place").textContent = ""; }
    this.prompt();
    this.wrote();
    this.got();
    this.why();
    drawTimeline($("#time"), data.summary, data.rows);
    if (fresh) {
      for (const id of ["prompt", "wrote", "got"]) body(id).scrollTop = 0;
      body("asked").scrollTop = this.open ? this.open.offsetTop : 0;
    }
    else if (stuck && data.summary.running) wrote.scrollTop = wrote.scrollHeight;
    this.search($("#find").value, false);
  }

  head() {
    const one = this.data.summary;
    const chips = [one.mode, one.format, one.constraint && `constraint ${one.constraint}`, one.api !== "chat" && one.api, one.upstream, one.tenant && `tenant ${one.tenant}`].filter(Boolean);
    const tokens = one.completion_tokens !== null || one.prompt_tokens !== null ? `${one.estimated ? "~" : ""}${one.prompt_tokens ?? "?"} → ${one.completion_tokens ?? "?"} tokens` : null;
    const counts = new Map();
    for (const outcome of one.outcomes ?? []) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
    $("#head").replaceChildren(
      el("h2", { dir: "ltr" }, visible(one.model || one.path || "–")),
      el("span", { class: `chip ${one.running ? "now" : failed(one) ? "bad" : "good"}` }, one.running ? "running" : `${one.status ?? "no status"}${one.end === "complete" ? "" : ` · ${one.end}`}`),
      ...[...counts].map(([outcome, count]) => el("span", { class: `chip ${grade(outcome)} outcome` }, count > 1 ? `${count}× ${outcome}` : outcome)),
      ...chips.map((text) => el("span", { class: "chip" }, visible(text))),
      ...(one.finish_reasons ?? []).slice(0, 4).map((text) => el("span", { class: "chip" }, `finish: ${text}`)),
      tokens ? el("span", { class: "chip" }, tokens) : "",
      one.attempts?.length > 1 ? el("span", { class: "chip warn" }, `${one.attempts.length} attempts`) : "",
      one.error ? el("span", { class: "chip bad" }, visible(one.error)) : "",
      el("span", { class: "id", title: one.id }, one.id ?? ""));
    const first = one.attempts?.[0];
    const entry = (name, value, shade) => el("span", {}, shade ? el("i", { class: "mark", "data-shade": shade }) : "", `${name} `, el("b", {}, ms(value)));
    const count = (name, value, shade) => el("span", {}, el("i", { class: "mark", "data-shade": shade }), `${name} `, el("b", {}, String(value)));
    $("#times").replaceChildren(
      entry("total", one.ended), entry("ours alone", one.own),
      entry("upstream's first byte", first && first.first_byte !== null ? first.first_byte - first.at : null, "--raised"),
      entry("first content", one.first_content, "--reasoning"), entry("first call", one.first_call, "--call"),
      count("model's pieces", this.data.explained.pieces.length, "--dim"), count("deltas left", this.data.rows.filter((row) => row.kind === "client").length, "--accent"));
    for (const mark of document.querySelectorAll("#times .mark")) mark.style.background = `var(${mark.dataset.shade})`;
  }

  request() {
    return parse(this.data.rows.find((row) => row.kind === "request")?.data ?? "");
  }

  // The request in the client's own API, where that is not chat completions.
  own() {
    return this.data.rows.find((row) => row.kind === "face_request");
  }

  asked() {
    const request = this.request();
    const parts = [];
    const own = this.own();
    if (own) parts.push(el("details", { id: "own" }, el("summary", {}, visible(`as it came: ${own.api}`)), el("pre", { dir: "ltr" }, parse(own.data) ? pretty(parse(own.data)) : visible(own.data))));
    if (!request) parts.push(el("p", { class: "note" }, this.data.summary.mode === "pass" ? "It passed unread: no tools were offered." : "The request was not recorded."));
    const tools = request?.tools ?? request?.functions ?? [];
    const offered = (Array.isArray(tools) ? tools : []).map((tool) => {
      const inner = tool.function ?? tool.custom ?? tool;
      return el("details", { class: "tool" }, el("summary", {}, visible(`${inner.name ?? tool.type ?? "tool"}`), el("span", { class: "dim" }, visible(inner.description ? ` — ${inner.description}` : ""))), el("pre", {}, pretty(inner.parameters ?? tool)));
    });
    if (offered.length) parts.push(el("details", { class: "tools" }, el("summary", {}, `${offered.length} tool${offered.length === 1 ? "" : "s"}`), ...offered));
    const messages = request?.messages ?? [];
    const turn = messages.findLastIndex((message) => message.role === "user");
    // What the request before it in the conversation did not have is new; of a first one, the last turn is opened.
    const from = this.known > 0 && this.known < messages.length ? this.known : turn;
    this.open = null;
    messages.forEach((message, at) => {
      const node = message_(message);
      if (this.known > 0 && at >= this.known) node.classList.add("new");
      if (at === from) this.open = node;
      if (message.role === "system" || message.role === "developer") parts.push(el("details", { class: "system" }, el("summary", {}, visible(`${message.role} prompt`)), node));
      else parts.push(node);
    });
    if (request) {
      const { messages: _, tools: __, ...rest } = request;
      parts.push(el("details", {}, el("summary", {}, "other fields"), el("pre", {}, pretty(rest))));
    }
    body("asked").replaceChildren(...parts);
  }

  // Bad news first, with the setting that helps.
  news() {
    const one = this.data.summary;
    const why = (one.attempts ?? []).map((attempt) => attempt.why);
    const outcomes = new Set(one.outcomes ?? []);
    const told = [];
    if (outcomes.has("unknown_tool") || this.data.explained.near_misses.some((miss) => miss.why.includes("unknown name"))) told.push("The model called a name that the request does not offer. unknown_tool decides what becomes of such a call; repair_names=true mends small slips.");
    if (outcomes.has("cut") || (one.finish_reasons ?? []).includes("length")) told.push("The answer was cut off by its limit of tokens. Raise max_tokens, default_max_tokens or the backend's context.");
    if (why.includes("tools_lost") || why.includes("call_swallowed")) told.push("The tools did not reach the model, or its call was lost in the backend's own parser. mode=prompt puts them into the prompt.");
    if (outcomes.has("invalid") || outcomes.has("malformed")) told.push("A call's arguments do not fit the tool's schema. validate_arguments=retry asks for them again.");
    if (this.data.cure) told.push(`No call came (${one.no_call}): ${this.data.cure}.`);
    if (one.error === "tool_choice_not_satisfied") told.push("A call had to come and none did. retries allows more tries; constrain=auto asks the backend to force one.");
    if (!one.running && one.status >= 400) told.push(`The client got ${one.status}${one.error ? ` (${one.error})` : ""}${this.data.explained.error ? `; the backend said: ${this.data.explained.error}` : ""}.`);
    $("#news").replaceChildren(...told.map((text) => el("p", { class: "note bad" }, visible(text))));
  }

  prompt() {
    const parts = this.data.explained.prompt.map((message) => el("div", { class: "message" },
      el("div", { class: "role" }, visible(message.role)),
      ...message.parts.map((part) => el("pre", { class: part.injected ? "injected" : "own", dir: "ltr" }, visible(part.text))),
      message.more ? el("pre", { class: "dim" }, pretty(message.more)) : ""));
    body("prompt").replaceChildren(...(parts.length ? parts : [el("p", { class: "note" }, "The backend was not asked, or gets the request as it came.")]));
  }

  wrote() {
    const { explained, summary } = this.data;
    this.text = new ModelText(explained);
    const parts = [];
    if (explained.error) parts.push(el("p", { class: "note bad" }, visible(explained.error)));
    if (explained.reasoning) parts.push(el("details", { open: "" }, el("summary", {}, "the backend's reasoning field"), el("pre", { class: "run reasoning" }, visible(explained.reasoning))));
    if (explained.native.length) parts.push(el("details", { open: "" }, el("summary", {}, "the backend's own calls"), el("pre", { class: "run call" }, pretty(explained.native))));
    if (explained.text) parts.push(this.text.node);
    if (!parts.length) parts.push(el("p", { class: "note" }, summary.running ? "It has written nothing yet." : "It wrote nothing that was read."));
    if (this.data.rows.at(-1)?.kind === "cut") parts.push(el("p", { class: "note bad" }, `The recording was cut: ${this.data.rows.at(-1).why}.`));
    body("wrote").replaceChildren(...parts);
    light("fault", this.text.faults.slice(0, 1000).map((one) => (one.end > one.start ? this.text.range(one.start, one.end) : null)));
  }

  got() {
    const shown = [];
    // Where a client speaks another API, what it got are the rows of that: each is made of the chat's rows before it.
    const own = this.data.rows.some((row) => row.kind === "face");
    this.leftBy = new Map();
    let made = [];
    this.data.rows.forEach((row, at) => {
      if (row.kind === "client") made.push(at);
      if (row.kind !== "error" && row.kind !== (own ? "face" : "client")) return;
      for (const from of made) this.leftBy.set(from, at);
      for (const [what, words] of said(row)) shown.push({ at, time: row.at, of: row.of, made, face: own, what, words: visible(words).replaceAll("\n", "⏎") });
      made = [];
    });
    this.deltas.show(shown);
  }

  delta(one) {
    return el("div", { class: `delta ${one.face ? "face " : ""}${one.what}${one.at === this.lit ? " on" : ""}`, "data-row": one.at, on: { click: () => this.back(one) } },
      el("span", { class: "at" }, one.time < 10000 ? one.time.toFixed(1) : `${(one.time / 1000).toFixed(2)}s`), el("span", { class: "what" }, one.what), el("span", { class: "said", dir: "ltr" }, one.words));
  }

  // From a delta to the text that it is made of.
  back(one) {
    this.lit = one.at;
    this.deltas.draw();
    const spans = this.text.spans.filter((span) => one.made.includes(span.client));
    const range = spans.length ? this.text.range(spans[0].start, spans.at(-1).end) : null;
    light("piece", [range]);
    if (range) this.into(range);
    $("#place").textContent = spans.length ? `delta ${one.at} at ${ms(one.time)} is made of characters ${spans[0].start}–${spans.at(-1).end}` : `delta ${one.at} at ${ms(one.time)} is made of no text of the model's`;
  }

  into(range) {
    const place = body("wrote");
    const box = range.getBoundingClientRect();
    const outer = place.getBoundingClientRect();
    if (box.top < outer.top || box.bottom > outer.bottom) place.scrollTop += box.top - outer.top - outer.height / 3;
  }

  // From a character to its piece and its delta.
  point(event, pick) {
    const caret = document.caretPositionFromPoint?.(event.clientX, event.clientY);
    const range = caret ? null : document.caretRangeFromPoint?.(event.clientX, event.clientY);
    const node = caret?.offsetNode ?? range?.startContainer;
    const offset = node && this.text ? this.text.offsetOf(node, caret?.offset ?? range.startOffset) : null;
    if (offset !== null) this.tell(Math.min(offset, this.text.text.length - 1), pick);
  }

  tell(offset, pick) {
    const known = this.text.at(offset);
    if (!known) return;
    const { rows } = this.data;
    const { span, piece } = known;
    const kind = { text: "prose", reasoning: "a thought", markup: "markup of a thought", call: "a call", dropped: "dropped" }[span.kind];
    const call = span.call === undefined ? "" : ` of ${visible(this.text.calls[span.call].name)}`;
    const left = span.client === null || span.client === undefined ? "left by no delta" : `left by delta ${span.client} at ${ms(rows[span.client].at)}`;
    const fault = this.text.faults.find((one) => one.start <= offset && offset < one.end);
    $("#place").textContent = `character ${offset}: ${kind}${call} · came with piece ${piece.row} at ${ms(rows[piece.row]?.at)} · decided with piece ${span.row} · ${left}${fault ? ` · ${visible(fault.why)}` : ""}`;
    light("piece", [this.text.range(piece.start, known.end)]);
    if (pick && typeof span.client === "number") {
      this.lit = this.leftBy.get(span.client) ?? span.client;
      this.deltas.reveal(this.deltas.items.findIndex((one) => one.at === this.lit));
    }
  }

  why() {
    const { rows, explained } = this.data;
    const line = (kind, at, what, value, why, click) => el("div", { class: `decision ${kind}`, on: click ? { click } : {} },
      el("span", { class: "at" }, at === null ? "" : ms(at)), el("span", { class: "what" }, visible(String(what))), el("span", { dir: "ltr" }, el("b", {}, visible(String(value))), visible(String(why ?? ""))));
    const shown = rows.filter((row) => row.kind === "decision").map((row) => line("", row.at, row.what, row.value, row.why));
    const jump = (one) => () => { if (one.start !== undefined) { light("piece", [this.text.range(one.start, one.end)]); this.into(this.text.range(one.start, one.end)); this.tell(one.start, true); } };
    this.text.calls.forEach((call, number) => {
      const state = call.complete === undefined ? "open" : call.complete ? (call.repaired ? "mended" : "complete") : "cut off";
      const outcome = call.outcome ? `${call.outcome}, ` : "";
      shown.push(line("call", rows[call.row]?.at ?? null, `call ${number}`, call.name, `${outcome}${state}: ${call.arguments.slice(0, 300)}`, jump(call)));
    });
    for (const fault of this.text.faults) shown.push(line("fault", null, /^looked like/.test(fault.why) ? "why no call" : "noted", "!", fault.why, jump(fault)));
    for (const one of this.text.nearMisses) shown.push(line("fault", null, "why no call", "!", one.why, jump(one)));
    for (const row of rows) if (row.kind === "error") shown.push(line("error", row.at, "error", row.code, row.message));
    body("why").replaceChildren(...(shown.length ? shown : [line("", null, "", "", "Nothing was decided: the request went on unread.")]));
  }

  search(words, go) {
    this.found = this.text ? this.text.find(words) : [];
    this.current = this.found.length ? 0 : -1;
    light("found", this.found.slice(0, 1000).map((at) => this.text.range(at, at + words.length)));
    $("#found").textContent = words ? (this.found.length ? `1/${this.found.length}` : "none") : "";
    light("current", []);
    if (go && this.found.length) this.next(0);
  }

  next(step) {
    if (!this.found.length) return;
    const size = $("#find").value.length;
    this.current = (this.current + step + this.found.length) % this.found.length;
    const at = this.found[this.current];
    const range = this.text.range(at, at + size);
    light("current", [range]);
    this.into(range);
    $("#found").textContent = `${this.current + 1}/${this.found.length}`;
  }

  // What the client sent, and where.
  sent() {
    const body = (this.own() ?? this.data.rows.find((row) => row.kind === "request"))?.data ?? "";
    return { path: this.data.summary.path || "/v1/chat/completions", body, api: this.own()?.api };
  }

  curl() {
    const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
    const { path, body } = this.sent();
    return `curl ${quoted(`${location.origin}${path}`)} -H 'content-type: application/json' --data-raw ${quoted(body)}`;
  }
}

function message_(message) {
  const content = typeof message.content === "string" ? visible(message.content) : message.content === null || message.content === undefined ? "" : pretty(message.content);
  return el("div", { class: "message" }, el("div", { class: "role" }, visible(`${message.role ?? "?"}${message.tool_call_id ? ` · ${message.tool_call_id}` : ""}`)), content ? el("pre", { dir: "ltr" }, content) : "", message.tool_calls ? el("pre", { class: "run call" }, pretty(message.tool_calls)) : "");
}
