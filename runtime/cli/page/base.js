// What all parts of the page share: the data, colours, text of figures, the selection and the tooltip.

const DATA = JSON.parse(document.getElementById("data").textContent);
const NODES = DATA.nodes;
const COUNT = NODES.id.length;
const ON_PATH = new Set(DATA.path);

// Ten hues that stay apart for the common kinds of colour blindness, then ten paler ones, then muted ones by the golden angle.
const HUES = {
  light: ["#3f74d8", "#e08a1e", "#1f9d8f", "#a15bc4", "#7d9a24", "#d0588d", "#3a9fd4", "#a8744a", "#5661c9", "#4c9b57"],
  dark: ["#6f9df5", "#f2a546", "#45c4b4", "#c38ae3", "#a9c653", "#ef86b2", "#6cc3f0", "#cfa079", "#8e98f5", "#7cc98a"],
};

/** Channels of a colour "#rrggbb". */
const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

function mixed(one, other, share) {
  const [a, b] = [channels(one), channels(other)];
  return `#${a.map((value, index) => Math.round(value * (1 - share) + b[index] * share).toString(16).padStart(2, "0")).join("")}`;
}

function fromHsl(hue, saturation, light) {
  const part = (shift) => {
    const at = (shift + hue / 30) % 12;
    const value = light - saturation * Math.min(light, 1 - light) * Math.max(-1, Math.min(at - 3, 9 - at, 1));
    return Math.round(value * 255).toString(16).padStart(2, "0");
  };
  return `#${part(0)}${part(8)}${part(4)}`;
}

Theme.names.push("bad", "warn", "edge");
Theme.listeners.push(() => {
  Theme.hues = Theme.isDark ? HUES.dark : HUES.light;
  Theme.rest = Theme.isDark ? "#76808f" : "#8e97a5";
  for (const mark of document.querySelectorAll("[data-group]")) mark.style.background = Theme.group(+mark.dataset.group);
});
Theme.group = (index) => {
  if (index < Theme.hues.length) return Theme.hues[index];
  const hue = Theme.hues[index - Theme.hues.length];
  if (hue) return mixed(hue, Theme.isDark ? "#10141b" : "#ffffff", 0.45);
  return fromHsl((index * 137.5) % 360, 0.32, Theme.isDark ? 0.66 : 0.52);
};
Theme.node = (index) => {
  const state = NODES.states[NODES.state[index]];
  if (state === "failed") return Theme.bad;
  return state === "succeeded" ? Theme.group(NODES.group[index]) : Theme.rest;
};

/** A duration in microseconds as text: three significant digits and a unit. */
function timeText(us) {
  if (us < 0) return "–";
  if (us >= 9.995e7) {
    const seconds = Math.round(us / 1e6);
    const minutes = Math.floor(seconds / 60) % 60;
    const pad = (value) => String(value).padStart(2, "0");
    return seconds >= 3600 ? `${Math.floor(seconds / 3600)} h ${pad(minutes)} min` : `${minutes} min ${pad(seconds % 60)} s`;
  }
  const [value, unit] = us >= 999500 ? [us / 1e6, "s"] : us >= 999.5 ? [us / 1e3, "ms"] : [us, "µs"];
  return `${value.toFixed(value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2).replace(/^0\.00$/, "0")} ${unit}`;
}

const numberText = (value) => value.toLocaleString("en-GB");
const plural = (count, word) => `${numberText(count)} ${word}${count === 1 ? "" : "s"}`;

/** The text cut in its middle: ids often differ at their end. */
function shorten(text, most) {
  if (text.length <= most) return text;
  const tail = Math.floor((most - 1) * 0.55);
  return `${text.slice(0, most - 1 - tail)}…${text.slice(text.length - tail)}`;
}

/** How much of the texts is the same for all, up to a separator: "NFCORE.RNASEQ." says nothing where all begin so. */
function commonPrefix(texts) {
  if (texts.length < 2) return 0;
  let size = texts[0].length;
  for (const text of texts) {
    let same = 0;
    while (same < size && text[same] === texts[0][same]) same++;
    size = same;
  }
  const cut = Math.max(...[".", ":", "/"].map((mark) => texts[0].lastIndexOf(mark, size - 1))) + 1;
  return cut < 6 ? 0 : cut;
}

const idPrefix = commonPrefix(NODES.id);
const groupPrefix = commonPrefix(DATA.groups);

/** What to call a node: its id, behind the name of its task if the id is only a number. */
const nameOf = (node) => visible(/^\d+$/.test(NODES.id[node]) ? `${DATA.groups[NODES.group[node]]} ${NODES.id[node]}` : NODES.id[node]);

/** Names as labels where room is scarce; tooltips and tables have the full ones. */
const shortId = (node) => (/^\d+$/.test(NODES.id[node]) ? nameOf(node) : visible(NODES.id[node].slice(idPrefix)));
const shortGroup = (group) => visible(DATA.groups[group].slice(groupPrefix));

const parentsOf = (node) => NODES.parents.slice(NODES.offsets[node], NODES.offsets[node + 1]);

let childRows = null;
function childrenOf(node) {
  if (!childRows) {
    childRows = Array.from({ length: COUNT }, () => []);
    for (let child = 0; child < COUNT; child++) for (const parent of parentsOf(child)) childRows[parent].push(child);
  }
  return childRows[node];
}

/** All nodes from which `node` can be reached, or that can be reached from it, along `next`. */
function reach(node, next) {
  const seen = new Set();
  const stack = [node];
  while (stack.length) {
    for (const other of next(stack.pop())) {
      if (!seen.has(other)) {
        seen.add(other);
        stack.push(other);
      }
    }
  }
  return seen;
}

/** What is selected on the page: one node, or one node type. */
const Selection = {
  node: -1,
  group: -1,
  family: null,
  listeners: [],
  pick(node, by = "") {
    this.node = node;
    this.family = node < 0 ? null : new Set([node, ...reach(node, parentsOf), ...reach(node, childrenOf)]);
    for (const listener of this.listeners) listener(by);
  },
  pickGroup(group) {
    this.group = this.group === group ? -1 : group;
    for (const listener of this.listeners) listener("group");
  },
  /** True if the node is to be drawn in the background. */
  dims(node) {
    if (this.group >= 0 && NODES.group[node] !== this.group) return true;
    return this.family !== null && !this.family.has(node);
  },
};

/** (name, text) pairs about a node. */
function factsOf(node) {
  const worker = DATA.workers.of[node];
  const pairs = [
    ["type", visible(DATA.groups[NODES.group[node]])],
    ["state", NODES.states[NODES.state[node]] + (ON_PATH.has(node) ? ", on the critical path" : "")],
  ];
  if (NODES.attempts[node] !== 1) pairs.push(["attempts", String(NODES.attempts[node])]);
  if (NODES.start[node] >= 0) {
    pairs.push(["ran", `${timeText(NODES.length[node])}, from ${timeText(NODES.start[node])}`], ["waited", timeText(NODES.wait[node])]);
    pairs.push(["worker", `${worker + 1} (pid ${DATA.workers.pids[worker]})`]);
  }
  if (NODES.errors[node]) pairs.push(["error", visible(NODES.errors[node].split("\n")[0])]);
  return pairs;
}

const Tip = {
  element: find("#tip"),
  show(x, y, title, pairs) {
    const list = make("dl");
    for (const [name, text] of pairs) list.append(make("dt", { textContent: name }), make("dd", { textContent: text }));
    this.element.replaceChildren(make("b", { textContent: title }), list);
    this.element.hidden = false;
    const box = this.element.getBoundingClientRect();
    const left = x + 16 + box.width > innerWidth ? x - box.width - 12 : x + 16;
    const top = y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18;
    this.element.style.left = `${Math.max(4, left)}px`;
    this.element.style.top = `${Math.max(4, top)}px`;
  },
  hide() {
    this.element.hidden = true;
  },
};
