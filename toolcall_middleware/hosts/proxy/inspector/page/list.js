// The list of exchanges: filtered, newest first.
import { Rows, el, ms, visible } from "./dom.js";

const BAD = new Set(["invalid", "malformed", "cut", "unknown_tool"]);
export const grade = (outcome) => (outcome === "clean" ? "good" : BAD.has(outcome) ? "bad" : "warn");
export const failed = (one) => !one.running && (Boolean(one.error) || one.status >= 400 || one.end === "error" || !one.status);

const FIELDS = {
  model: (one) => one.model, mode: (one) => one.mode, format: (one) => one.format, api: (one) => one.api,
  upstream: (one) => one.upstream, tenant: (one) => one.tenant, status: (one) => one.status, error: (one) => one.error,
  id: (one) => one.id, title: (one) => one.title, outcome: (one) => (one.outcomes || []).join(" "), end: (one) => one.end,
};

// found: the exchanges whose whole content has the words that name no field, as the server says.
export function matches(one, words, found = null) {
  return words.every((word) => {
    const colon = word.indexOf(":");
    const name = word.slice(0, colon);
    const value = word.slice(colon + 1);
    if (name === "is") return { running: one.running, error: failed(one), stream: one.stream, call: one.calls > 0 }[value] ?? false;
    if (colon > 0 && FIELDS[name]) return String(FIELDS[name](one) ?? "").toLowerCase().includes(value);
    return found?.has(one.number) || Object.values(FIELDS).some((field) => String(field(one) ?? "").toLowerCase().includes(word));
  });
}

export class List {
  constructor(node, select) {
    this.all = new Map();
    this.shown = [];
    this.selected = null;
    this.words = [];
    this.found = null;
    this.asked = 0;
    this.select = select;
    this.rows = new Rows(node, 54, (one) => this.item(one));
  }

  take(summaries, first) {
    for (const one of summaries) this.all.set(one.number, one);
    for (const number of this.all.keys()) if (number < first) this.all.delete(number);
    this.refresh();
  }

  async filter(text) {
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.found = null;
    this.refresh();
    const asked = (this.asked += 1);
    const words = this.words.filter((word) => !(word.startsWith("is:") || FIELDS[word.split(":")[0]]));
    if (!words.length) return;
    const answer = await fetch(`api/search?text=${encodeURIComponent(words.join(" "))}`);
    if (!answer.ok || asked !== this.asked) return;
    this.found = new Set(await answer.json());
    this.refresh();
  }

  // The request before this one in its conversation.
  before(number) {
    const one = this.all.get(number);
    const earlier = [...this.all.values()].filter((other) => one?.conversation && other.conversation === one.conversation && other.number < number);
    return earlier.sort((a, b) => b.number - a.number)[0] ?? null;
  }

  refresh() {
    const shown = [...this.all.values()].filter((one) => matches(one, this.words, this.found));
    // Conversations stand together, the one with the newest exchange first.
    const newest = new Map();
    for (const one of shown) newest.set(one.conversation, Math.max(newest.get(one.conversation) ?? 0, one.number));
    const place = (one) => (one.conversation ? newest.get(one.conversation) : one.number);
    this.shown = shown.sort((a, b) => place(b) - place(a) || b.number - a.number);
    this.rows.show(this.shown);
    this.told?.();
  }

  move(step) {
    if (!this.shown.length) return;
    const at = this.shown.findIndex((one) => one.number === this.selected);
    this.choose(this.shown[at < 0 ? 0 : Math.min(this.shown.length - 1, Math.max(0, at + step))].number);
  }

  choose(number) {
    this.selected = number;
    const at = this.shown.findIndex((one) => one.number === number);
    if (at >= 0) this.rows.reveal(at);
    this.select(number);
  }

  item(one) {
    const worst = (one.outcomes || []).find((outcome) => outcome !== "clean") ?? one.outcomes?.[0];
    const tokens = one.completion_tokens === null ? "" : ` · ${one.estimated ? "~" : ""}${one.prompt_tokens ?? 0}→${one.completion_tokens} tok`;
    const chip = failed(one) ? ["bad", one.error || one.status || one.end] : one.running ? ["now", "running"] : worst ? [grade(worst), one.outcomes.length > 1 ? `${one.outcomes.length}× ${worst}` : worst] : ["", one.mode === "pass" ? "passed" : "no call"];
    const at = this.shown.indexOf(one);
    const inside = one.conversation && this.shown[at - 1]?.conversation === one.conversation;
    return el("div", { class: `item${one.running ? " running" : ""}${inside ? " inside" : ""}`, role: "option", "data-number": one.number, "aria-selected": one.number === this.selected ? "true" : "false", on: { click: () => this.choose(one.number) } },
      el("span", { class: "model", dir: "ltr" }, visible(one.title || one.model || one.path || "–")),
      el("span", { class: "when" }, new Date(one.time * 1000).toLocaleTimeString([], { hour12: false })),
      el("span", { class: "facts" }, el("span", { class: `chip ${chip[0]}` }, visible(String(chip[1]))), ` ${one.title ? `${visible(one.model ?? "")} ` : ""}${one.mode}${one.format ? `/${one.format}` : ""}${tokens}`),
      el("span", { class: "took" }, one.running ? "…" : ms(one.ended)));
  }
}
