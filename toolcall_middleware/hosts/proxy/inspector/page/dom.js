// Small helpers. Text goes in as text nodes only: what a model wrote is never markup.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Characters that hide or turn text round become visible ones, one for one, so that offsets stay what they are.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
export function visible(text) {
  return text.replace(HIDDEN, (char) => {
    const code = char.charCodeAt(0);
    return code < 32 ? String.fromCharCode(0x2400 + code) : code === 127 ? "␡" : "⍰";
  });
}

export const ms = (value) =>
  value === null || value === undefined ? "–" : value < 10 ? `${value.toFixed(2)} ms` : value < 1000 ? `${value.toFixed(0)} ms` : `${(value / 1000).toFixed(2)} s`;

// A list of rows of one height, of which only those in sight are made.
export class Rows {
  constructor(scroller, height, make) {
    this.scroller = scroller;
    this.height = height;
    this.make = make;
    this.items = [];
    this.spacer = el("div", { class: "spacer" });
    scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(scroller);
  }

  show(items) {
    this.items = items;
    if (this.spacer.parentNode !== this.scroller) this.scroller.replaceChildren(this.spacer);
    this.spacer.replaceChildren(); // what stands far below would keep the list scrolled there
    this.spacer.style.height = `${items.length * this.height}px`;
    this.draw();
  }

  draw() {
    const { scrollTop, clientHeight } = this.scroller;
    const first = Math.max(0, Math.floor(scrollTop / this.height) - 6);
    const last = Math.min(this.items.length, Math.ceil((scrollTop + clientHeight) / this.height) + 6);
    const nodes = [];
    for (let at = first; at < last; at += 1) {
      const node = this.make(this.items[at], at);
      node.style.top = `${at * this.height}px`;
      nodes.push(node);
    }
    this.spacer.replaceChildren(...nodes);
  }

  reveal(at) {
    const top = at * this.height;
    const { scrollTop, clientHeight } = this.scroller;
    if (top < scrollTop || top + this.height > scrollTop + clientHeight) this.scroller.scrollTop = Math.max(0, top - clientHeight / 2);
    this.draw();
  }
}
