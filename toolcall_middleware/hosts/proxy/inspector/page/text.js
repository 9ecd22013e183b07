// The model's text: coloured runs, and for each character the piece that brought it and the delta that it left by.
import { el, visible } from "./dom.js";

const RUN = 20000; // characters of one element, so that what is out of sight costs nothing

// The server counts code points, a browser UTF-16 units.
export function offsets(text) {
  const wide = [];
  let count = 0;
  for (let at = 0; at < text.length; at += 1, count += 1) {
    const code = text.charCodeAt(at);
    if (code >= 0xd800 && code < 0xdc00) { wide.push(count); at += 1; }
  }
  return (point) => {
    let low = 0;
    let high = wide.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (wide[middle] < point) low = middle + 1; else high = middle;
    }
    return point + low;
  };
}

function last(items, at) {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle].start <= at) low = middle + 1; else high = middle;
  }
  return items[low - 1];
}

export class ModelText {
  constructor(explained) {
    const unit = offsets(explained.text);
    const move = (one) => ({ ...one, start: unit(one.start), end: one.end === undefined ? undefined : unit(one.end) });
    this.text = visible(explained.text);
    this.spans = explained.spans.map(move);
    this.pieces = explained.pieces.map(move);
    this.faults = explained.faults.map(move);
    this.nearMisses = explained.near_misses.map(move);
    this.calls = explained.calls.map((call) => (call.start === undefined ? call : move(call)));
    this.nodes = [];
    this.node = el("pre", { dir: "ltr" });
    this.draw();
  }

  draw() {
    let at = 0;
    while (at < this.spans.length) {
      const first = this.spans[at];
      let end = at;
      while (end + 1 < this.spans.length && this.spans[end + 1].kind === first.kind && this.spans[end + 1].call === first.call) end += 1;
      for (let start = first.start; start < this.spans[end].end; start += RUN) {
        const node = document.createTextNode(this.text.slice(start, Math.min(start + RUN, this.spans[end].end)));
        this.nodes.push({ start, node });
        this.node.append(el("span", { class: `run ${first.kind}` }, node));
      }
      at = end + 1;
    }
  }

  // What is known of the character at an offset.
  at(offset) {
    const span = last(this.spans, offset);
    const piece = last(this.pieces, offset);
    if (!span || !piece) return null;
    const next = this.pieces[this.pieces.indexOf(piece) + 1];
    return { offset, span, piece, end: next ? next.start : this.text.length };
  }

  range(start, end) {
    const from = last(this.nodes, start);
    const to = last(this.nodes, Math.max(start, end - 1));
    if (!from || !to) return null;
    const range = new Range();
    range.setStart(from.node, Math.min(start - from.start, from.node.length));
    range.setEnd(to.node, Math.min(end - to.start, to.node.length));
    return range;
  }

  offsetOf(node, inner) {
    const found = this.nodes.find((one) => one.node === node);
    return found ? found.start + inner : null;
  }

  find(words) {
    const found = [];
    const text = this.text.toLowerCase();
    const wanted = words.toLowerCase();
    for (let at = wanted ? text.indexOf(wanted) : -1; at >= 0 && found.length < 5000; at = text.indexOf(wanted, at + wanted.length)) found.push(at);
    return found;
  }
}

export function light(name, ranges) {
  if (!CSS.highlights) return;
  const found = ranges.filter(Boolean);
  if (found.length) CSS.highlights.set(name, new Highlight(...found)); else CSS.highlights.delete(name);
}
