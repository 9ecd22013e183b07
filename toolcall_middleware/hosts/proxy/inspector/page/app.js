// Wiring: the stream of events, the list, the exchange at hand, keys.
import { el, visible } from "./dom.js";
import { Exchange } from "./exchange.js";
import { List } from "./list.js";

const $ = (selector) => document.querySelector(selector);
const exchange = new Exchange();
let shown = null; // {number, version}
let loading = false;

async function load(number, fresh) {
  if (loading && !fresh) return;
  loading = true;
  try {
    const answer = await fetch(`api/exchanges/${number}`);
    if (!answer.ok) { toast("That exchange is gone: newer ones took its place."); return; }
    const data = await answer.json();
    if (list.selected !== number) return;
    $("#empty").hidden = true;
    $("#exchange").hidden = false;
    exchange.known = list.before(number)?.messages ?? 0;
    exchange.show(data, fresh);
    shown = { number, version: data.version };
    $("#case").href = `api/exchanges/${number}/case`;
    $("#trace").href = `api/exchanges/${number}/trace`;
    $("#report").href = `api/exchanges/${number}/report`;
    if (fresh) readAs("");
  } finally {
    loading = false;
  }
}

const list = new List($("#list"), (number) => { history.replaceState(null, "", `#${number}`); load(number, true); });

function take(event) {
  const { changed, first } = JSON.parse(event.data);
  list.take(changed, first);
  const wanted = Number(location.hash.slice(1));
  if (list.selected === null && list.all.has(wanted)) list.choose(wanted);
  const mine = changed.find((one) => one.number === shown?.number);
  if (mine && mine.version !== shown.version) load(mine.number, false);
}

addEventListener("hashchange", () => {
  const wanted = Number(location.hash.slice(1));
  if (wanted !== list.selected && list.all.has(wanted)) list.choose(wanted);
});

const events = new EventSource("api/events");
events.addEventListener("message", take);
events.addEventListener("open", () => $("#live").classList.add("on"));
events.addEventListener("error", () => $("#live").classList.remove("on"));

list.told = () => {
  $("#count").textContent = `${list.shown.length} of ${list.all.size} exchanges`;
  $("#nothing").hidden = Boolean(list.shown.length) || !list.words.length;
};
$("#filter").addEventListener("input", () => list.filter($("#filter").value));
$("#find").addEventListener("input", () => exchange.search($("#find").value, true));
$("#find").addEventListener("keydown", (event) => { if (event.key === "Enter") exchange.next(event.shiftKey ? -1 : 1); });

let fading;
function toast(text) {
  const node = $("#toast");
  node.textContent = text;
  node.hidden = false;
  clearTimeout(fading);
  fading = setTimeout(() => { node.hidden = true; }, 2200);
}

async function copyCurl() {
  const text = exchange.curl();
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied as curl.");
  } catch {
    toast("The browser does not allow copying.");
  }
}
$("#curl").addEventListener("click", copyCurl);

// The model's text as another format reads it.
async function readAs(format) {
  $("#format").value = format;
  $("#reread").hidden = !format;
  if (!format) return;
  const answer = await fetch(`api/exchanges/${list.selected}/read?format=${encodeURIComponent(format)}`);
  if ($("#format").value !== format) return;
  if (!answer.ok) { $("#reread").replaceChildren(el("p", { class: "note bad" }, visible(await answer.text()))); return; }
  const { calls, text } = await answer.json();
  const shown = calls.map((call) => el("pre", { class: "run call", dir: "ltr" }, visible(`${call.name} ${call.arguments}${call.complete ? "" : "  (cut off)"}`)));
  $("#reread").replaceChildren(
    el("p", { class: "note" }, `As ${format}: ${calls.length} call${calls.length === 1 ? "" : "s"}, ${[...text].length} characters of text.`), ...shown);
}
$("#format").addEventListener("change", () => readAs($("#format").value));

// The request, edited, sent to the proxy of this page.
function edit() {
  if ($("#again").hidden || !shown) return;
  const { body } = exchange.sent();
  try { $("#edited").value = JSON.stringify(JSON.parse(body), null, 2); } catch { $("#edited").value = body; }
  $("#sent").textContent = "";
  $("#send").showModal();
}
async function send() {
  const { path, api } = exchange.sent();
  const headers = { "content-type": "application/json" };
  try { JSON.parse($("#edited").value); } catch (error) { $("#sent").textContent = `This is not JSON: ${visible(error.message)}`; return; }
  if ($("#key").value) headers.authorization = `Bearer ${$("#key").value}`;
  if (api === "messages") headers["anthropic-version"] = "2023-06-01";
  $("#sent").textContent = "Sent; the answer comes…";
  try {
    const answer = await fetch(path, { method: "POST", headers, body: $("#edited").value });
    const told = await answer.text();
    if (!answer.ok) { $("#sent").textContent = visible(`Status ${answer.status}: ${told.slice(0, 500)}`); return; }
    $("#send").close();
    toast("Answered. The new exchange is in the list.");
  } catch {
    $("#sent").textContent = "The proxy could not be reached.";
  }
}
$("#again").addEventListener("click", edit);
$("#go").addEventListener("click", send);
const about = await (await fetch("api/about")).json();
$("#again").hidden = !about.sends;
$("#format").append(...about.formats.map((name) => el("option", { value: name }, name)));

const NAMES = { asked: "Asked", prompt: "Prompt", wrote: "Wrote", got: "Got" };
const switches = Object.entries(NAMES).map(([id, name], at) => {
  const button = el("button", { "aria-pressed": "true", title: `Show or hide (${at + 1})` }, name);
  button.addEventListener("click", () => {
    const hidden = $(`#${id}`).toggleAttribute("hidden");
    button.setAttribute("aria-pressed", hidden ? "false" : "true");
  });
  return button;
});
$("#columns-switch").append(...switches);

const saved = localStorage.getItem("theme");
if (saved) document.documentElement.dataset.theme = saved;
function theme() {
  const dark = document.documentElement.dataset.theme ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("theme", document.documentElement.dataset.theme);
  if (shown) load(shown.number, false);
}
$("#theme").addEventListener("click", theme);

const KEYS = {
  j: ["next exchange", () => list.move(1)], k: ["previous exchange", () => list.move(-1)],
  "/": ["filter the list", () => $("#filter").focus()], f: ["find in the model's text", () => $("#find").focus()],
  n: ["next find", () => exchange.next(1)], c: ["copy as curl", copyCurl], s: ["save as case", () => $("#case").click()],
  h: ["save as a page", () => $("#report").click()], e: ["edit and send again", edit],
  t: ["light or dark", theme], 1: ["the client's messages", () => switches[0].click()], 2: ["the prompt", () => switches[1].click()],
  3: ["the model's text", () => switches[2].click()], 4: ["the client's deltas", () => switches[3].click()],
  "?": ["these keys", () => $("#help").showModal()],
};
$("#keys").append(...Object.entries(KEYS).flatMap(([key, [what]]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, what)]));
$("#help-button").addEventListener("click", () => $("#help").showModal());
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "Escape" && event.target.matches("input[type=search]")) {
    event.target.value = "";
    event.target.dispatchEvent(new Event("input"));
    event.target.blur();
    return;
  }
  if (typing || $("#help").open || $("#send").open) return;
  const key = { ArrowDown: "j", ArrowUp: "k" }[event.key] ?? event.key;
  if (KEYS[key] && (key === event.key || event.target.id === "list" || event.target === document.body)) {
    event.preventDefault();
    KEYS[key][1]();
  }
});
