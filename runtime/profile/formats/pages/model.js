// Stacks as they come, and the tree that is shown: filtered, grouped, summed. Everything is in typed arrays.

/** Frames, nodes of stacks and samples, as the page got them. */
const Stacks = (() => {
  const nodeCount = DATA.nodeCount;
  const raw = unpack(DATA.nodes, nodeCount * 2);
  const parent = new Int32Array(nodeCount + 1).fill(-1);
  const frame = new Int32Array(nodeCount + 1).fill(-1);
  let last = 0;
  for (let node = 1; node <= nodeCount; node++) {
    for (let up = raw[node * 2 - 2]; up > 0; up--) last = parent[last];
    parent[node] = last;
    frame[node] = raw[node * 2 - 1];
    last = node;
  }
  const width = DATA.diff ? 8 : 6;
  const rows = unpack(DATA.samples, DATA.sampleCount * width);
  for (let at = 0, node = 0; at < rows.length; at += width) rows[at] = node += rows[at];
  return { parent, frame, rows, width };
})();

/** Frames by number: first those of stacks, then those of groups, which are added when they are needed. */
const Frames = {
  names: [],
  files: [],
  lines: [],
  groups: new Map(),
  setUp() {
    const count = DATA.frames ? unpackAll(DATA.frames) : [];
    for (let at = 0; at < count.length; at += 3) {
      this.names.push(visible(DATA.names[count[at]]) || "(no name)");
      this.files.push(visible(DATA.files[count[at + 1]]));
      this.lines.push(count[at + 2]);
    }
    this.own = this.names.length;
  },
  /** The number of the frame of a group. */
  group(text) {
    if (!this.groups.has(text)) {
      this.groups.set(text, this.names.length);
      this.names.push(visible(text));
      this.files.push("");
      this.lines.push(0);
    }
    return this.groups.get(text);
  },
  place(frame) {
    return this.files[frame] + (this.lines[frame] ? `:${this.lines[frame]}` : "");
  },
};

/** All numbers of a packed text. */
function unpackAll(text) {
  const bytes = atob(text);
  let count = 0;
  for (let at = 0; at < bytes.length; at++) count += bytes.charCodeAt(at) < 128;
  return unpack(text, count);
}

/** What can be grouped and filtered by: processes, threads, each label. */
const Dimensions = (() => {
  const found = [];
  const used = (texts) => texts.length > 1 || (texts.length === 1 && texts[0] !== "");
  if (used(DATA.processes)) found.push({ name: "process", of: (row) => DATA.processes[Stacks.rows[row + 2]] || "no process" });
  if (used(DATA.threads)) found.push({ name: "thread", of: (row) => { const text = DATA.threads[Stacks.rows[row + 3]]; return text ? `thread: ${text}` : "no thread"; } });
  DATA.labels.forEach((name, index) => {
    const texts = DATA.sets.map((pairs) => { const pair = pairs.find(([at]) => at === index); return pair ? pair[1] : null; });
    found.push({ name, label: true, of: (row) => { const text = texts[Stacks.rows[row + 1]]; return text === null ? `no ${name}` : `${name}: ${text}`; } });
  });
  return found;
})();

/** The tree that is shown. Parents come before their children; children are in the order of their size. */
const Tree = {
  filters: new Map(),
  groups: [],
  inverted: false, // what ran is at the root, its callers below
  sizeBy: DATA.diff ? "both" : "after",

  passes(row) {
    for (const [dimension, text] of this.filters) if (dimension.of(row) !== text) return false;
    return true;
  },

  build() {
    const { rows, width } = Stacks;
    const byGroup = new Map();
    for (let row = 0; row < rows.length; row += width) {
      if (!this.passes(row)) continue;
      const path = this.groups.map((dimension) => dimension.of(row));
      const key = path.join("\u0000");
      const group = byGroup.get(key);
      if (group) group.rows.push(row);
      else byGroup.set(key, { path, rows: [row] });
    }
    this.parent = [-1];
    this.frame = [Frames.group("all")];
    this.own = [[0, 0, 0, 0]];
    this.depth = [0];
    this.leaves = this.inverted ? new Map() : null;
    const links = new Map();
    const groupNodes = new Map();
    const mapped = new Int32Array(Stacks.parent.length);
    const stamp = new Int32Array(Stacks.parent.length);
    let mark = 0;
    for (const { path, rows: members } of byGroup.values()) {
      mark += 1;
      let top = 0;
      path.forEach((text, index) => {
        const key = path.slice(0, index + 1).join("\u0000");
        if (!groupNodes.has(key)) groupNodes.set(key, this.add(top, Frames.group(text)));
        top = groupNodes.get(key);
      });
      mapped[0] = top;
      stamp[0] = mark;
      const way = [];
      for (const row of members) {
        if (this.inverted) {
          this.weigh(this.upwards(top, row, links), row);
          continue;
        }
        let node = rows[row];
        while (stamp[node] !== mark) {
          way.push(node);
          node = Stacks.parent[node];
        }
        while (way.length) {
          const next = way.pop();
          mapped[next] = this.add(mapped[node], Stacks.frame[next]);
          stamp[next] = mark;
          node = next;
        }
        this.weigh(mapped[node], row);
      }
    }
    this.sum();
  },

  /** The node of a stack from its end: what ran, then its callers. */
  upwards(top, row, links) {
    let view = top;
    for (let node = Stacks.rows[row]; node > 0; node = Stacks.parent[node]) {
      const key = view * Frames.own + Stacks.frame[node];
      let next = links.get(key);
      if (next === undefined) links.set(key, (next = this.add(view, Stacks.frame[node])));
      if (view === top) {
        const leaf = this.leaves.get(next) || [0, 0];
        this.leaves.set(next, [leaf[0] + Stacks.rows[row + 4], leaf[1] + (DATA.diff ? Stacks.rows[row + 6] : 0)]);
      }
      view = next;
    }
    return view;
  },

  /** Add the weights of a row to a node. */
  weigh(node, row) {
    if (!this.own[node]) this.own[node] = [0, 0, 0, 0];
    for (let column = 4; column < Stacks.width; column++) this.own[node][column - 4] += Stacks.rows[row + column];
  },

  add(parent, frame) {
    this.parent.push(parent);
    this.frame.push(frame);
    this.own.push(null);
    this.depth.push(this.depth[parent] + 1);
    return this.parent.length - 1;
  },

  /** Totals of all nodes, and their children by size. */
  sum() {
    const count = (this.count = this.parent.length);
    this.parent = Int32Array.from(this.parent);
    this.frame = Int32Array.from(this.frame);
    this.depth = Int32Array.from(this.depth);
    const columns = [0, 1, 2, 3].map(() => new Float64Array(count));
    this.ends = new Float64Array(count); // weight of stacks that end here, which have no width of their own below
    this.endsBefore = new Float64Array(count);
    for (let node = 0; node < count; node++) {
      const own = this.own[node];
      if (!own) continue;
      for (let column = 0; column < 4; column++) columns[column][node] = own[column];
      this.ends[node] = own[0];
      this.endsBefore[node] = own[2];
    }
    this.own = null;
    this.self = this.ends;
    this.selfBefore = this.endsBefore;
    if (this.leaves) {
      this.self = new Float64Array(count);
      this.selfBefore = new Float64Array(count);
      for (const [node, [after, before]] of this.leaves) [this.self[node], this.selfBefore[node]] = [after, before];
    }
    for (let node = count - 1; node > 0; node--) for (const column of columns) column[this.parent[node]] += column[node];
    [this.value, this.seen, this.before, this.seenBefore] = columns;
    this.order();
  },

  /** Sizes by what they are to show, and children by size. */
  order() {
    const count = this.count;
    this.size = this.sizeBy === "after" ? this.value : this.sizeBy === "before" ? this.before : this.value.map((value, node) => value + this.before[node]);
    this.first = new Int32Array(count + 1);
    for (let node = 1; node < count; node++) this.first[this.parent[node] + 1] += 1;
    for (let node = 0; node < count; node++) this.first[node + 1] += this.first[node];
    const next = this.first.slice(0, count);
    this.children = new Int32Array(Math.max(0, count - 1));
    for (let node = 1; node < count; node++) this.children[next[this.parent[node]]++] = node;
    for (let node = 0; node < count; node++) {
      const [from, to] = [this.first[node], this.first[node + 1]];
      if (to - from > 1) this.children.subarray(from, to).sort((a, b) => this.size[b] - this.size[a] || this.frame[a] - this.frame[b]);
    }
  },

  /** The part of a node's size that no child has. */
  rest(node) {
    if (this.sizeBy === "both") return this.ends[node] + this.endsBefore[node];
    return this.sizeBy === "after" ? this.ends[node] : this.endsBefore[node];
  },

  /** How much of a node's weight lies in frames that are wanted, each weight counted once. */
  matched(node, wanted) {
    let sum = 0;
    const state = new Uint8Array(this.count); // 1: within the node, 2: below a frame that is wanted
    state[node] = 1;
    for (let at = node; at < this.count; at++) {
      const above = at === node ? 1 : state[this.parent[at]];
      if (!above) continue;
      state[at] = above;
      if (above === 1 && wanted[this.frame[at]]) {
        state[at] = 2;
        sum += this.size[at];
      }
    }
    return sum;
  },

  /** Self and total of each frame below a node; a frame that is twice on a stack is counted once. */
  functions(node) {
    const found = new Map();
    const open = new Int32Array(Frames.names.length);
    const visit = [node];
    while (visit.length) {
      const at = visit.pop();
      if (at < 0) {
        open[this.frame[-at - 1]] -= 1;
        continue;
      }
      const frame = this.frame[at];
      let row = found.get(frame);
      if (!row) found.set(frame, (row = { frame, self: 0, total: 0, selfBefore: 0, totalBefore: 0 }));
      row.self += this.self[at];
      row.selfBefore += this.selfBefore[at];
      if (!open[frame]) {
        row.total += this.value[at];
        row.totalBefore += this.before[at];
      }
      open[frame] += 1;
      visit.push(-at - 1);
      for (let child = this.first[at]; child < this.first[at + 1]; child++) visit.push(this.children[child]);
    }
    return [...found.values()].filter((row) => row.frame < Frames.own);
  },
};

Frames.setUp();
