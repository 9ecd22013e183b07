// The list of exchanges: filtered, newest first.
import { Rows, el, ms, visible } from "./dom.js";

const BAD = new Set(["invalid", "malformed", "cut", "unknown_tool"]);
export const grade = (outcome) => (outcome === "clean" ? "good" : BAD.has(outcome) ? "bad" : "warn");
export const failed = (one) => !one.running && (Boolean(one.error) || one.status >= 400 || one.end === "error" || !one.status);

const FIELDS = {
  model: (one) => one.model, mode: (one) => one.mode, format: (one) => one.format, api: (one) => one.api,
  upstream: (one) => one.upstream, tenant: (one) => one.tenant, status: (one) => one.status, error: (one) => one.error,
  id: (one) => one.id, outcome: (one) => (one.outcomes || []).join(" "), end: (one) => one.end,
};

export function matches(one, words) {
  return words.every((word) => {
    const colon = word.indexOf(":");
    const name = word.slice(0, colon);
    const value = word.slice(colon + 1);
    if (name === "is") return { running: one.running, error: failed(one), stream: one.stream, call: one.calls > 0 }[value] ?? false;
    if (colon > 0 && FIELDS[name]) return String(FIELDS[name](one) ?? "").toLowerCase().includes(value);
    return Object.values(FIELDS).some((field) => String(field(one) ?? "").toLowerCase().includes(word));
  });
}

export class List {
  constructor(node, select) {
    this.all = new Map();
    this.shown = [];
    this.selected = null;
    this.words = [];
    this.select = select;
    this.rows = new Rows(node, 54, (one) => this.item(one));
  }

  take(summaries, first) {
    for (const one of summaries) this.all.set(one.number, one);
    for (const number of this.all.keys()) if (number < first) this.all.delete(number);
    this.refresh();
  }

  filter(text) {
    this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
    this.refresh();
  }

  refresh() {
    this.shown = [...this.all.values()].filter((one) => matches(one, this.words)).sort((a, b) => b.number - a.number);
    this.rows.show(this.shown);
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
    return el("div", { class: `item${one.running ? " running" : ""}`, role: "option", "data-number": one.number, "aria-selected": one.number === this.selected ? "true" : "false", on: { click: () => this.choose(one.number) } },
      el("span", { class: "model", dir: "ltr" }, visible(one.model || one.path || "–")),
      el("span", { class: "when" }, new Date(one.time * 1000).toLocaleTimeString([], { hour12: false })),
      el("span", { class: "facts" }, el("span", { class: `chip ${chip[0]}` }, visible(String(chip[1]))), ` ${one.mode}${one.format ? `/${one.format}` : ""}${tokens}`),
      el("span", { class: "took" }, one.running ? "…" : ms(one.ended)));
  }
}
