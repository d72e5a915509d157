// What all parts of the page share: the data, and figures as text.

const DATA = JSON.parse(document.getElementById("data").textContent);
const TIMES = DATA.unit === "nanoseconds";

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

Theme.names.push("hit");
