// The graph on a canvas: what is narrower than half a pixel is not drawn, and nothing below it is visited.

const ROW = 19;
const NARROW = 0.5;
const ROWS_MAX = 800; // a canvas has a limit, too
const CALLERS_MAX = 40;

const Graph = {
  focus: 0,
  hover: -1,
  chosen: -1,
  wanted: null,
  up: false,
  listeners: [],
  colours: new Map(),
  widths: new Map(),

  setUp() {
    this.canvas = find("#flame");
    this.holder = find("#holder");
    this.pen = this.canvas.getContext("2d");
    new ResizeObserver(() => this.redraw()).observe(this.holder);
    Theme.listeners.push(() => {
      this.colours.clear();
      this.redraw();
    });
    this.canvas.addEventListener("mousemove", (event) => this.point(event));
    this.canvas.addEventListener("mouseleave", () => this.leave());
    this.canvas.addEventListener("click", (event) => {
      const node = this.at(event);
      if (node >= 0) this.zoom(node);
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  },

  redraw() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.draw();
    });
  },

  /** Where each frame is that can be seen: [node, row, x, width], node -1 for what is too narrow. */
  layout(width) {
    const rects = [];
    const callers = [];
    for (let node = this.focus; node >= 0; node = Tree.parent[node]) callers.push(node);
    callers.length = Math.min(callers.length, CALLERS_MAX);
    callers.reverse().forEach((node, row) => rects.push([node, row, 0, width]));
    const visit = Tree.size[this.focus] > 0 ? [rects[rects.length - 1]] : [];
    let rows = callers.length;
    while (visit.length) {
      const [node, row, x, wide] = visit.pop();
      if (row + 1 >= ROWS_MAX) continue;
      const scale = wide / Tree.size[node];
      const [from, to] = [Tree.first[node], Tree.first[node + 1]];
      let left = x;
      for (let at = from; at < to; at++) {
        const child = Tree.children[at];
        const wideness = Tree.size[child] * scale;
        if (wideness < NARROW) { // the others are not wider
          const rest = x + wide - Tree.rest(node) * scale - left;
          if (rest > NARROW) rects.push([-1, row + 1, left, rest]);
          break;
        }
        const rect = [child, row + 1, left, wideness];
        rects.push(rect);
        visit.push(rect);
        left += wideness;
        rows = Math.max(rows, row + 2);
      }
    }
    return { rects, rows, callers: callers.length };
  },

  draw() {
    const began = performance.now();
    const width = this.holder.clientWidth;
    if (!width) return;
    const ratio = window.devicePixelRatio || 1;
    const seen = (this.seen = this.layout(width));
    const height = Math.max(seen.rows, 4) * ROW;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
    }
    this.height = height;
    const pen = this.pen;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = '12px ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace';
    pen.textBaseline = "middle";
    for (const rect of seen.rects) this.rect(rect, rect[1] < seen.callers - 1);
    this.drawn = seen.rects.length;
    this.tookMs = performance.now() - began;
    for (const listener of this.listeners) listener();
  },

  y(row) {
    return this.up ? this.height - (row + 1) * ROW : row * ROW;
  },

  rect([node, row, x, width], caller) {
    const pen = this.pen;
    const y = this.y(row);
    const shown = Math.max(width - (width > 3 ? 1 : 0.25), 0.5);
    if (node < 0) {
      pen.globalAlpha = 1;
      pen.fillStyle = Theme.faint;
      pen.fillRect(x, y, shown, ROW - 1);
      return;
    }
    const frame = Tree.frame[node];
    const hit = this.wanted && this.wanted[frame];
    pen.globalAlpha = caller ? 0.55 : this.wanted && !hit ? 0.45 : 1;
    pen.fillStyle = hit ? Theme.hit : this.colour(node, frame);
    pen.fillRect(x, y, shown, ROW - 1);
    pen.globalAlpha = caller ? 0.8 : 1;
    if (node === this.chosen || node === this.hover) {
      pen.strokeStyle = Theme.ink;
      pen.lineWidth = node === this.chosen ? 2 : 1;
      pen.strokeRect(x + 1, y + 1, Math.max(shown - 2, 0.5), ROW - 3);
    }
    if (width > 26) {
      pen.fillStyle = hit ? (Theme.isDark ? "#1b0620" : "#ffffff") : Theme.ink;
      pen.fillText(this.fitting(Frames.names[frame], width - 9), x + 5, y + ROW / 2);
    }
    pen.globalAlpha = 1;
  },

  /** As much of a text as there is room for. */
  fitting(text, room) {
    let width = this.widths.get(text);
    if (width === undefined) {
      width = this.pen.measureText(text).width;
      this.widths.set(text, width);
    }
    if (width <= room) return text;
    const kept = Math.floor((text.length * room) / width) - 1;
    return kept < 1 ? "" : `${text.slice(0, kept)}…`;
  },

  colour(node, frame) {
    if (DATA.diff) return this.difference(node);
    let colour = this.colours.get(frame);
    if (!colour) this.colours.set(frame, (colour = this.ofFrame(frame)));
    return colour;
  },

  /** One hue for each package or folder, a shade for each function; groups and the loop's own frames are grey. */
  ofFrame(frame) {
    const file = Frames.files[frame];
    const name = Frames.names[frame];
    if (frame >= Frames.own || /(^|\/)(asyncio|selectors\.py|uvloop)/.test(file)) return Theme.isDark ? "hsl(216 12% 30%)" : "hsl(216 16% 82%)";
    const folder = (/site-packages\/([^/]+)/.exec(file) || /(lib\/python[\d.]+)\/[^/]+$/.exec(file) || /^(.*)\/[^/]*$/.exec(file) || [0, file || name])[1];
    const hue = hash(folder) % 360;
    const shade = hash(name) % 11;
    return Theme.isDark ? `hsl(${hue} 38% ${27 + shade}%)` : `hsl(${hue} 62% ${72 + shade}%)`;
  },

  /** Red for what grew, blue for what shrank, paler the smaller the part that changed. */
  difference(node) {
    const [after, before] = [Tree.value[node], Tree.before[node]];
    const part = (after - before) / (Math.max(after, before) || 1);
    const strength = Math.abs(part) < 0.005 ? 0 : 0.15 + 0.85 * Math.abs(part);
    const hue = part > 0 ? 4 : 214;
    if (Theme.isDark) return `hsl(${hue} ${Math.round(62 * strength)}% ${Math.round(27 + 13 * strength)}%)`;
    return `hsl(${hue} ${Math.round(85 * strength)}% ${Math.round(86 - 18 * strength)}%)`;
  },

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const row = Math.floor((this.up ? this.height - y : y) / ROW);
    const rect = this.seen && this.seen.rects.find((one) => one[1] === row && one[2] <= x && x < one[2] + Math.max(one[3], 0.5));
    return rect ? rect[0] : -1;
  },

  point(event) {
    const node = this.at(event);
    if (node !== this.hover) {
      this.hover = node;
      this.redraw();
    }
    const tip = find("#tip");
    tip.hidden = node < 0;
    if (node < 0) return;
    tip.replaceChildren(...described(node));
    const [wide, tall] = [tip.offsetWidth, tip.offsetHeight];
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - wide - 8))}px`;
    tip.style.top = `${event.clientY + 18 + tall > innerHeight ? Math.max(4, event.clientY - tall - 12) : event.clientY + 18}px`;
  },

  leave() {
    this.hover = -1;
    find("#tip").hidden = true;
    this.redraw();
  },

  zoom(node) {
    this.focus = node;
    this.chosen = node;
    find("#tip").hidden = true;
    View.changed();
  },

  choose(node) {
    if (node < 0) return;
    this.chosen = node;
    const parts = described(node);
    find("#frame").replaceChildren(...parts.map((part, index) => make(index ? "span" : "b", { className: part.className, textContent: (index ? " · " : "") + part.textContent })));
    this.redraw();
  },

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.chosen >= 0 ? this.chosen : this.focus;
    const parent = Tree.parent[at];
    const sibling = (step) => {
      if (parent < 0 || at === this.focus) return at;
      const family = Tree.children.subarray(Tree.first[parent], Tree.first[parent + 1]);
      return family[Math.min(Math.max(family.indexOf(at) + step, 0), family.length - 1)];
    };
    const callee = () => (Tree.first[at] < Tree.first[at + 1] ? Tree.children[Tree.first[at]] : at);
    const caller = () => (parent >= 0 ? parent : at);
    const actions = {
      ArrowDown: () => this.choose(this.up ? caller() : callee()),
      ArrowUp: () => this.choose(this.up ? callee() : caller()),
      ArrowLeft: () => this.choose(sibling(-1)),
      ArrowRight: () => this.choose(sibling(1)),
      Enter: () => this.zoom(at),
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
    // Who steps to a caller of what is zoomed sees it.
    if (event.key.startsWith("Arrow") && this.chosen < this.focus && !inside(this.chosen, this.focus)) this.zoom(this.chosen);
  },
};

/** Whether a node is another one or below it. */
function inside(node, above) {
  for (let at = node; at >= above; at = Tree.parent[at]) if (at === above) return true;
  return false;
}

/** What is to be known of a frame: its name, its place, its weights. */
function described(node) {
  const frame = Tree.frame[node];
  const [value, own, before] = [Tree.value[node], Tree.self[node], Tree.before[node]];
  const lines = [make("b", { textContent: Frames.names[frame] })];
  const place = Frames.place(frame);
  if (place) lines.push(make("span", { textContent: place }));
  const shown = TIMES ? `${amount(value)}${Math.abs(value) >= 1e9 ? ` (${inMs(value)})` : ""}` : `${amount(value)}`;
  const ofView = Graph.focus ? `, ${percent(value, Tree.value[Graph.focus])} of what is zoomed` : "";
  lines.push(make("span", { textContent: `${shown}, ${percent(value, Tree.value[0])} of all${ofView}` }));
  if (TIMES) lines.push(make("span", { textContent: `self ${amount(own)}, ${percent(own, Tree.value[0])} · ${plain.format(Tree.seen[node])} samples` }));
  else if (own && own !== value && !Tree.inverted) lines.push(make("span", { textContent: `${amount(own)} end here` }));
  if (DATA.diff) {
    const text = change(before, value);
    const grew = value > before;
    const line = make("span", { textContent: `before ${amount(before)}, ${percent(before, Tree.before[0])} of all: ${text}` });
    line.className = text === "none" ? "" : grew ? "up" : "down";
    lines.push(line);
  }
  return lines;
}
