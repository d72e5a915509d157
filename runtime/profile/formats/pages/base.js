// What all parts of the page share: the data, figures as text, colours.

const DATA = JSON.parse(document.getElementById("data").textContent);
const TIMES = DATA.unit === "nanoseconds";

const find = (selector) => document.querySelector(selector);

/** An element with properties and children; text is always set as text, never as markup. */
function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

/** Text in which controls and what turns the direction of a line can be seen. */
function visible(text) {
  return text.replace(/[\u0000-\u001f]/g, (c) => String.fromCharCode(0x2400 + c.charCodeAt(0)))
    .replace(/[\u007f-\u009f\u202a-\u202e\u2066-\u2069]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** Numbers that were packed seven bits a byte; they may be larger than 32 bits, so no shifts. */
function unpack(text, count) {
  const bytes = atob(text);
  const values = new Float64Array(count);
  let at = 0;
  for (let index = 0; index < count; index++) {
    let factor = 1;
    let value = 0;
    for (;;) {
      const byte = bytes.charCodeAt(at++);
      if (byte < 128) {
        values[index] = value + byte * factor;
        break;
      }
      value += (byte - 128) * factor;
      factor *= 128;
    }
  }
  return values;
}

const plain = new Intl.NumberFormat("en");

/** A weight for people: a time with three digits, or a number. */
function amount(value) {
  if (!TIMES) return plain.format(Math.round(value));
  const size = Math.abs(value);
  for (const [unit, factor] of [["s", 1e9], ["ms", 1e6], ["µs", 1e3]]) {
    const shown = size / factor;
    if (shown >= 0.9995) return `${value < 0 ? "−" : ""}${shown < 9.995 ? shown.toFixed(2) : shown < 99.95 ? shown.toFixed(1) : plain.format(Math.round(shown))} ${unit}`;
  }
  return `${Math.round(value)} ns`;
}

/** Milliseconds, whatever the size. */
const inMs = (value) => `${plain.format(Math.round(value / 1e4) / 100)} ms`;

const percent = (part, whole) => (whole > 0 ? `${((part * 100) / whole).toFixed(part / whole < 0.1 ? 2 : 1)}%` : "–");

/** What changed, with its sign. */
function change(before, after) {
  if (!before && !after) return "none";
  if (!before) return "new";
  if (!after) return "vanished";
  const ratio = (after - before) / before;
  return `${ratio >= 0 ? "+" : "−"}${Math.abs(ratio * 100).toFixed(Math.abs(ratio) < 0.1 ? 1 : 0)}%`;
}

/** A small hash: the same name has the same colour in every page. */
function hash(text) {
  let value = 2166136261;
  for (let at = 0; at < text.length; at++) value = Math.imul(value ^ text.charCodeAt(at), 16777619) >>> 0;
  return value;
}

const Theme = {
  listeners: [],
  dark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  },
  refresh() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["page", "card", "ink", "soft", "line", "faint", "accent", "hit"]) this[name] = style.getPropertyValue(`--${name}`).trim();
    this.isDark = this.dark();
    for (const listener of this.listeners) listener();
  },
  setUp() {
    const choices = [["", "Auto", "as the system"], ["light", "Light", "light"], ["dark", "Dark", "dark"]];
    let at = 0;
    const button = find("#theme");
    button.onclick = () => {
      at = (at + 1) % choices.length;
      const [theme, text, label] = choices[at];
      if (theme) document.documentElement.dataset.theme = theme;
      else delete document.documentElement.dataset.theme;
      button.textContent = text;
      button.setAttribute("aria-label", `Colours: ${label}`);
      this.refresh();
    };
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.refresh());
    this.refresh();
  },
};
