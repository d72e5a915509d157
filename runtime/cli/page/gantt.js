// The timeline: a row of lanes per worker, a bar per node, and above them how many nodes ran at each time.

const Gantt = {
  axis: 24,
  load: 58,

  setUp() {
    const { lanes, of, lane } = DATA.workers;
    const total = lanes.reduce((sum, count) => sum + count, 0);
    this.gap = lanes.length > 20 ? 4 : 9;
    this.thick = Math.max(4, Math.min(24, Math.floor((540 - lanes.length * this.gap) / Math.max(1, total))));
    this.tops = [];
    let top = 0;
    for (const count of lanes) {
      this.tops.push(top);
      top += count * this.thick + this.gap;
    }
    this.total = Math.max(top, 40);
    this.rows = new Map();
    for (let node = 0; node < COUNT; node++) {
      if (of[node] < 0) continue;
      const key = of[node] * 65536 + lane[node];
      if (!this.rows.has(key)) this.rows.set(key, { worker: of[node], lane: lane[node], nodes: [] });
      this.rows.get(key).nodes.push(node);
    }
    for (const row of this.rows.values()) row.nodes.sort((a, b) => NODES.start[a] - NODES.start[b]);
    this.order = [...Array(COUNT).keys()].filter((node) => NODES.start[node] >= 0).sort((a, b) => NODES.start[a] - NODES.start[b]);
    this.starts = this.order.map((node) => NODES.start[node]);
    this.ends = this.order.map((node) => Math.round((NODES.start[node] + NODES.length[node]) * 10) / 10).sort((a, b) => a - b);
    this.most = this.peak();
    const label = `Timeline of ${plural(DATA.total, "node")} on ${plural(lanes.length, "worker")}. The table of nodes below has the same data.`;
    const narrow = find("#gantt").clientWidth < 640;
    this.view = new View(find("#gantt"), this, { label, locked: true, margin: { left: narrow ? 66 : 118, top: this.axis + this.load } });
    this.view.tools();
    Selection.listeners.push((by) => by !== "gantt" && by !== "group" && this.reveal());
  },

  heightFor() {
    return Math.min(this.total, 560) + this.axis + this.load + 6;
  },

  bounds() {
    return { width: Math.max(DATA.span, 1) * 1.004, height: this.total };
  },

  maximum() {
    return 20; // pixels per microsecond
  },

  topOf(node) {
    return this.tops[DATA.workers.of[node]] + DATA.workers.lane[node] * this.thick;
  },

  reveal() {
    const node = Selection.node;
    if (node >= 0 && NODES.start[node] >= 0) this.view.reveal(NODES.start[node], this.topOf(node), NODES.length[node], this.thick);
  },

  step(direction, view) {
    const at = this.order.indexOf(Selection.node);
    const next = at < 0 ? (direction > 0 ? 0 : this.order.length - 1) : Math.min(Math.max(at + direction, 0), this.order.length - 1);
    if (this.order.length) Selection.pick(this.order[next], "key");
    view.redraw();
  },

  running(us) {
    if (DATA.load) return DATA.load[Math.min(DATA.load.length - 1, Math.floor((us / DATA.span) * DATA.load.length))] ?? 0;
    return upTo(this.starts, us) - upTo(this.ends, us);
  },

  peak() {
    if (DATA.load) return Math.max(1, ...DATA.load);
    let [most, end] = [1, 0];
    this.starts.forEach((start, index) => {
      while (this.ends[end] <= start) end++;
      most = Math.max(most, index + 1 - end);
    });
    return most;
  },

  draw(pen, view) {
    pen.save();
    pen.beginPath();
    pen.rect(view.margin.left, view.margin.top, view.plotWidth, view.plotHeight);
    pen.clip();
    this.drawGrid(pen, view);
    for (const row of this.rows.values()) this.drawRow(pen, view, row);
    if (Selection.node >= 0 && NODES.start[Selection.node] >= 0) this.outline(pen, view, Selection.node, Theme.ink, 2);
    if (view.hovered >= 0) this.outline(pen, view, view.hovered, Theme.ink, 1.5);
    pen.restore();
    this.drawLabels(pen, view);
    this.drawLoad(pen, view);
    this.drawAxis(pen, view);
    this.drawScrollMark(pen, view);
  },

  drawGrid(pen, view) {
    pen.fillStyle = Theme.faint;
    for (const tick of ticks(view)) pen.fillRect(Math.round(view.toX(tick)), view.margin.top, 1, view.plotHeight);
    pen.fillStyle = Theme.line;
    for (const top of this.tops.slice(1)) pen.fillRect(view.margin.left, Math.round(view.toY(top - this.gap / 2)), view.plotWidth, 1);
  },

  drawRow(pen, view, row) {
    const top = view.toY(this.tops[row.worker] + row.lane * this.thick);
    if (top > view.height || top + this.thick < view.margin.top) return;
    const high = this.thick - (this.thick > 6 ? 2 : 1);
    const [from, to] = [view.fromX(view.margin.left), view.fromX(view.width)];
    let painted = -1;
    let first = lowest(row.nodes.length, (i) => NODES.start[row.nodes[i]] + NODES.length[row.nodes[i]] >= from);
    for (; first < row.nodes.length; first++) {
      const node = row.nodes[first];
      if (NODES.start[node] > to) break;
      const left = view.toX(NODES.start[node]);
      const wide = Math.max(1, NODES.length[node] * view.sx - (NODES.length[node] * view.sx > 4 ? 1 : 0));
      const special = NODES.state[node] !== NODES.states.indexOf("succeeded");
      if (left + wide < painted + 0.6 && !special) continue;
      painted = left + wide;
      this.drawBar(pen, node, left, top, wide, high);
    }
  },

  drawBar(pen, node, left, top, wide, high) {
    const colour = Theme.node(node);
    pen.globalAlpha = Selection.dims(node) ? 0.16 : 1;
    pen.fillStyle = colour;
    if (wide > 6 && high > 7) {
      pen.beginPath();
      pen.roundRect(left, top, wide, high, 3);
      pen.fill();
    } else {
      pen.fillRect(left, top, wide, high);
    }
    if (ON_PATH.has(node)) {
      pen.fillStyle = Theme.ink;
      pen.fillRect(left, top + high - Math.max(1, high * 0.14), wide, Math.max(1, high * 0.14));
    }
    if (high >= 12 && wide > 44) {
      const again = NODES.attempts[node] > 1 ? `×${NODES.attempts[node]} ` : "";
      pen.fillStyle = inkOn(colour);
      pen.font = `${Math.min(12, high - 5)}px system-ui, sans-serif`;
      pen.textBaseline = "middle";
      const from = Math.max(left, this.view.margin.left);
      const room = left + wide - from - 10;
      if (room > 30) pen.fillText(fitted(pen, again + shortId(node), room), from + 5, top + high / 2 - 0.5);
    } else if (NODES.attempts[node] > 1 && high > 5) {
      pen.fillStyle = Theme.warn;
      pen.fillRect(left, top, Math.max(2, Math.min(wide, 4)), high);
    }
    pen.globalAlpha = 1;
  },

  outline(pen, view, node, colour, width) {
    pen.strokeStyle = colour;
    pen.lineWidth = width;
    const wide = Math.max(3, NODES.length[node] * view.sx);
    pen.strokeRect(view.toX(NODES.start[node]) - 0.5, view.toY(this.topOf(node)) - 0.5, wide, Math.max(3, this.thick - 1));
  },

  drawLabels(pen, view) {
    pen.save();
    pen.beginPath();
    pen.rect(0, view.margin.top, view.margin.left, view.plotHeight);
    pen.clip();
    pen.textBaseline = "middle";
    let taken = -Infinity;
    DATA.workers.pids.forEach((pid, index) => {
      const top = Math.max(view.toY(this.tops[index]), view.margin.top);
      const bottom = Math.min(view.toY(this.tops[index] + DATA.workers.lanes[index] * this.thick), view.height);
      const [high, middle] = [bottom - top, (top + bottom) / 2];
      if (high < 4 || middle - taken < 15) return;
      const both = high >= 30 || this.gap + high >= 34;
      pen.fillStyle = Theme.ink;
      pen.font = "600 12px system-ui, sans-serif";
      pen.fillText(view.margin.left < 100 ? `w ${index + 1}` : `worker ${index + 1}`, 10, both ? middle - 7 : middle);
      pen.fillStyle = Theme.soft;
      pen.font = "11px system-ui, sans-serif";
      if (both) pen.fillText(`pid ${pid}`, 10, middle + 8);
      taken = middle;
    });
    pen.restore();
  },

  drawLoad(pen, view) {
    const [top, base] = [this.axis + 8, this.axis + this.load - 8];
    const height = (count) => (count / this.most) * (base - top);
    pen.fillStyle = Theme.accent;
    pen.globalAlpha = 0.28;
    pen.beginPath();
    pen.moveTo(view.margin.left, base);
    for (let px = view.margin.left; px <= view.width; px++) {
      const us = view.fromX(px);
      pen.lineTo(px, base - (us <= DATA.span ? height(this.running(us)) : 0));
    }
    pen.lineTo(view.width, base);
    pen.fill();
    pen.globalAlpha = 1;
    pen.fillStyle = Theme.line;
    pen.fillRect(0, base, view.width, 1);
    pen.textBaseline = "middle";
    pen.fillStyle = Theme.ink;
    pen.font = "600 12px system-ui, sans-serif";
    pen.fillText("at once", 10, (top + base) / 2 - 7);
    pen.fillStyle = Theme.soft;
    pen.font = "11px system-ui, sans-serif";
    pen.fillText(`max ${numberText(Math.round(this.most))}`, 10, (top + base) / 2 + 8);
  },

  drawAxis(pen, view) {
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    const step = tickStep(view);
    for (const tick of ticks(view)) {
      const px = view.toX(tick);
      pen.fillStyle = Theme.soft;
      if (px >= view.margin.left && px < view.width - 26) pen.fillText(tickText(tick, step), px, this.axis / 2 + 1);
      pen.fillStyle = Theme.line;
      pen.fillRect(Math.round(px), this.axis - 4, 1, 4);
    }
    pen.fillRect(0, this.axis, view.width, 1);
    pen.textAlign = "start";
  },

  drawScrollMark(pen, view) {
    if (this.total <= view.plotHeight + 1) return;
    const high = Math.max(20, (view.plotHeight / this.total) * view.plotHeight);
    const top = view.margin.top + (view.y0 / this.total) * view.plotHeight;
    pen.fillStyle = Theme.soft;
    pen.globalAlpha = 0.5;
    pen.fillRect(view.width - 5, top, 3, high);
    pen.globalAlpha = 1;
  },

  nodeAt(px, py, view) {
    if (px < view.margin.left || py < view.margin.top) return -1;
    const y = view.fromY(py);
    let worker = this.tops.length - 1;
    while (worker > 0 && this.tops[worker] > y) worker--;
    const row = this.rows.get(worker * 65536 + Math.floor((y - this.tops[worker]) / this.thick));
    if (!row) return -1;
    const at = lowest(row.nodes.length, (i) => NODES.start[row.nodes[i]] > view.fromX(px)) - 1;
    for (const index of [at, at + 1]) {
      const node = row.nodes[index];
      if (node === undefined) continue;
      const [left, right] = [view.toX(NODES.start[node]), view.toX(NODES.start[node] + NODES.length[node])];
      if (px >= left - 2 && px <= Math.max(right, left + 1) + 2) return node;
    }
    return -1;
  },

  hit(px, py, view) {
    if (py >= this.axis && py < view.margin.top && px > view.margin.left) {
      const us = view.fromX(px);
      return us > DATA.span ? null : { key: -1, title: `${numberText(Math.round(this.running(us)))} at once`, pairs: [["at", timeText(us)]] };
    }
    const node = this.nodeAt(px, py, view);
    return node < 0 ? null : { key: node, title: nameOf(node), pairs: factsOf(node) };
  },

  click(px, py, view) {
    Selection.pick(this.nodeAt(px, py, view), "gantt");
  },
};

/** The lowest index of `size` for which `holds` is true, given that it is false before and true after it. */
function lowest(size, holds) {
  let [low, high] = [0, size];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** How many of the ascending values are at most `limit`. */
const upTo = (values, limit) => lowest(values.length, (index) => values[index] > limit);

function tickStep(view) {
  const rough = 90 / view.sx;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((unit) => unit * power).find((step) => step >= rough);
}

function ticks(view) {
  const step = tickStep(view);
  const last = Math.min(view.fromX(view.width), DATA.span * 1.004);
  const found = [];
  for (let tick = Math.ceil(view.fromX(view.margin.left) / step) * step; tick <= last; tick += step) found.push(tick);
  return found;
}

function tickText(us, step) {
  const [size, unit] = us >= 1e6 || step >= 1e6 ? [1e6, "s"] : us >= 1e3 || step >= 1e3 ? [1e3, "ms"] : [1, "µs"];
  if (step >= 6e7) return `${+(us / 6e7).toFixed(2)} min`;
  return `${+(us / size).toFixed(Math.max(0, Math.ceil(Math.log10(size / step))))} ${unit}`;
}
