// The graph: layers from left to right. Node by node, or as groups of nodes of one type on one level.

const CELL = { wide: 200, high: 46 };
const BOX = { wide: 158, high: 30 };
const EDGES_LIVE_MAX = 9000; // more edges are left out while the view moves

const Graph = {
  setUp() {
    const many = DATA.total > 1500 || (DATA.graph && DATA.graph.width * CELL.wide > 24 * Math.max(8, DATA.graph.height) * CELL.high);
    this.grouped = !DATA.graph || (many && DATA.grouped.count.length < DATA.total);
    const label = `Graph of ${plural(DATA.total, "node")}. The table of nodes and the critical path below have the same data.`;
    this.choose(this.grouped);
    this.view = new View(find("#graph"), this, { label });
    const switches = !DATA.graph
      ? []
      : [
          ["Nodes", false],
          ["Groups", true],
        ].map(([text, grouped]) => {
          const button = make("button", { type: "button", textContent: text });
          button.onclick = () => {
            this.choose(grouped);
            mark();
            this.view.resize();
            this.view.fit();
          };
          return [button, grouped];
        });
    const mark = () => switches.forEach(([button, grouped]) => button.setAttribute("aria-pressed", String(grouped === this.grouped)));
    mark();
    this.view.tools(...switches.map(([button]) => button));
    Selection.listeners.push((by) => by !== "graph" && by !== "group" && this.reveal());
  },

  choose(grouped) {
    this.grouped = grouped;
    this.source = grouped ? DATA.grouped : DATA.graph;
    this.size = this.source.x.length;
    this.edges = grouped ? DATA.grouped.edges : this.nodeEdges();
    this.curves = null;
    this.labels = [];
    const { merged, count } = DATA.grouped;
    const why = !DATA.graph ? ` The graph of ${numberText(DATA.total)} single nodes would be too large for this page.` : "";
    const bands = merged ? " and neighbouring levels" : " and level";
    find("#graph-note").textContent = grouped
      ? `${plural(count.length, "group")}: nodes of the same type${bands}, with their number.${why}`
      : `${plural(this.size, "node")}, ${plural(this.edges.length, "edge")}. The critical path is drawn bold. Click a node to see what leads to it and from it.`;
  },

  nodeEdges() {
    const edges = [];
    for (let child = 0; child < COUNT; child++) for (const parent of parentsOf(child)) edges.push([parent, child, 1]);
    return edges;
  },

  heightFor(width) {
    const { width: wide, height: high } = this.bounds();
    return Math.round(Math.max(220, Math.min(680, (width / wide) * high, high * 1.6)));
  },

  bounds() {
    return { width: this.source.width * CELL.wide + 40, height: this.source.height * CELL.high + 40 };
  },

  maximum() {
    return Math.max(2.5, this.view.minimum() * 2);
  },

  left(index) {
    return 20 + (CELL.wide - BOX.wide) / 2 + this.source.x[index] * CELL.wide;
  },

  top(index) {
    return 20 + (CELL.high - BOX.high) / 2 + this.source.y[index] * CELL.high;
  },

  /** The thing on the graph that shows a node of the run. */
  shownBy(node) {
    return this.grouped ? (DATA.grouped.member[node] ?? -1) : node;
  },

  reveal() {
    const index = Selection.node < 0 ? -1 : this.shownBy(Selection.node);
    if (index >= 0) this.view.reveal(this.left(index), this.top(index), BOX.wide, BOX.high);
  },

  step(direction, view) {
    if (this.grouped) view.pan(-direction * 80, 0);
    else Gantt.step(direction, view);
  },

  colour(index) {
    if (!this.grouped) return Theme.node(index);
    return DATA.grouped.failed[index] ? Theme.bad : Theme.group(DATA.grouped.group[index]);
  },

  dims(index) {
    if (!this.grouped) return Selection.dims(index);
    return Selection.group >= 0 && DATA.grouped.group[index] !== Selection.group;
  },

  draw(pen, view) {
    if (!view.moving || this.edges.length <= EDGES_LIVE_MAX) this.drawEdges(pen, view);
    const labels = view.sx * BOX.wide > 58;
    for (let index = 0; index < this.size; index++) this.drawBox(pen, view, index, labels);
    const marked = [view.hovered >= 0 ? view.hovered : -1, Selection.node < 0 ? -1 : this.shownBy(Selection.node)];
    for (const index of marked) if (index >= 0) this.outline(pen, view, index);
  },

  /** From the side of one box that looks at the other to the side that looks back; lines may run either way. */
  curve(path, before, after) {
    const [x1, y1] = [this.left(before) + BOX.wide / 2, this.top(before) + BOX.high / 2];
    const [x2, y2] = [this.left(after) + BOX.wide / 2, this.top(after) + BOX.high / 2];
    if (Math.abs(x2 - x1) < BOX.wide / 2) {
      const down = (Math.sign(y2 - y1) * BOX.high) / 2;
      const bend = (y2 - y1) * 0.4;
      path.moveTo(x1, y1 + down);
      path.bezierCurveTo(x1, y1 + down + bend, x2, y2 - down - bend, x2, y2 - down);
      return;
    }
    const along = Math.sign(x2 - x1);
    const side = (along * BOX.wide) / 2;
    const bend = along * Math.max(24, Math.min(Math.abs(x2 - x1) * 0.45, 260));
    path.moveTo(x1 + side, y1);
    path.bezierCurveTo(x1 + side + bend, y1, x2 - side - bend, y2, x2 - side, y2);
  },

  drawEdges(pen, view) {
    if (!this.curves) {
      this.curves = new Path2D();
      for (const [before, after] of this.edges) this.curve(this.curves, before, after);
    }
    pen.save();
    pen.translate(-view.x0 * view.sx, -view.y0 * view.sy);
    pen.scale(view.sx, view.sy);
    const chosen = Selection.family !== null && !this.grouped;
    const alpha = Math.min(0.6, Math.max(0.06, 9 / Math.sqrt(this.edges.length)));
    pen.strokeStyle = Theme.edge;
    pen.globalAlpha = alpha * (chosen || Selection.group >= 0 ? 0.3 : 1);
    pen.lineWidth = Math.max(1.1, 0.7 / view.sx);
    pen.stroke(this.curves);
    if (this.grouped) this.drawWeights(pen);
    else this.drawSpecial(pen, view, chosen);
    pen.restore();
  },

  /** In the grouped graph an edge is the wider, the more edges it stands for. */
  drawWeights(pen) {
    pen.globalAlpha *= 0.7;
    for (const [before, after, times] of this.edges) {
      if (times < 2) continue;
      const path = new Path2D();
      this.curve(path, before, after);
      pen.lineWidth = Math.min(9, 1 + Math.log2(times));
      pen.stroke(path);
    }
  },

  drawSpecial(pen, view, chosen) {
    const bold = new Path2D();
    for (let at = 1; at < DATA.path.length; at++) this.curve(bold, DATA.path[at - 1], DATA.path[at]);
    pen.globalAlpha = chosen ? 0.35 : 0.9;
    pen.strokeStyle = Theme.ink;
    pen.lineWidth = Math.max(2, 1.4 / view.sx);
    pen.stroke(bold);
    if (!chosen && !(view.hovered >= 0)) return;
    const near = new Path2D();
    const hovered = view.hovered ?? -1;
    for (const [before, after] of this.edges) {
      const inFamily = chosen && Selection.family.has(before) && Selection.family.has(after);
      if (inFamily || before === hovered || after === hovered) this.curve(near, before, after);
    }
    pen.globalAlpha = 0.85;
    pen.strokeStyle = Theme.accent;
    pen.lineWidth = Math.max(1.6, 1.2 / view.sx);
    pen.stroke(near);
  },

  drawBox(pen, view, index, labels) {
    const [left, top] = [view.toX(this.left(index)), view.toY(this.top(index))];
    const [wide, high] = [BOX.wide * view.sx, Math.max(1.5, BOX.high * view.sy)];
    if (left > view.width || left + wide < 0 || top > view.height || top + high < 0) return;
    const colour = this.colour(index);
    pen.globalAlpha = this.dims(index) ? 0.16 : 1;
    if (!labels) {
      pen.fillStyle = colour;
      pen.fillRect(left, top, wide, high);
      if (!this.grouped && ON_PATH.has(index) && high >= 5) {
        pen.strokeStyle = Theme.ink;
        pen.lineWidth = 1.5;
        pen.strokeRect(left, top, wide, high);
      }
      pen.globalAlpha = 1;
      return;
    }
    const round = 7 * view.sx;
    pen.fillStyle = Theme.card;
    pen.beginPath();
    pen.roundRect(left, top, wide, high, round);
    pen.fill();
    pen.globalAlpha *= Theme.isDark ? 0.3 : 0.2;
    pen.fillStyle = colour;
    pen.fill();
    pen.globalAlpha = this.dims(index) ? 0.16 : 1;
    pen.lineWidth = !this.grouped && ON_PATH.has(index) ? Math.max(1.5, 2 * view.sx) : 1;
    pen.strokeStyle = !this.grouped && ON_PATH.has(index) ? Theme.ink : colour;
    pen.stroke();
    pen.fillStyle = colour;
    pen.beginPath();
    pen.roundRect(left, top, 6 * view.sx, high, [round, 0, 0, round]);
    pen.fill();
    this.drawText(pen, view, index, left + 13 * view.sx, top + high / 2);
    pen.globalAlpha = 1;
  },

  drawText(pen, view, index, left, middle) {
    pen.font = `${12.5 * view.sx}px system-ui, sans-serif`;
    pen.textBaseline = "middle";
    pen.fillStyle = Theme.ink;
    pen.fillText(this.label(pen, view, index), left, middle);
  },

  /** Fitting is slow, and does not depend on the scale: each text is fitted once. */
  label(pen, view, index) {
    if (this.labels[index] === undefined) {
      const room = (BOX.wide - 21) * view.sx;
      if (this.grouped) {
        const many = DATA.grouped.count[index];
        const count = many > 1 ? `${numberText(many)} × ` : "";
        const name = shortGroup(DATA.grouped.group[index]);
        this.labels[index] = count + fitted(pen, name, room - pen.measureText(count).width);
      } else {
        const again = NODES.attempts[index] > 1 ? ` ×${NODES.attempts[index]}` : "";
        this.labels[index] = fitted(pen, shortId(index), room - pen.measureText(again).width) + again;
      }
    }
    return this.labels[index];
  },

  outline(pen, view, index) {
    pen.strokeStyle = Theme.accent;
    pen.lineWidth = 2.5;
    pen.beginPath();
    const grow = 2;
    const [wide, high] = [BOX.wide * view.sx, Math.max(1.5, BOX.high * view.sy)];
    pen.roundRect(view.toX(this.left(index)) - grow, view.toY(this.top(index)) - grow, wide + 2 * grow, high + 2 * grow, 8 * view.sx);
    pen.stroke();
  },

  indexAt(px, py, view) {
    const [x, y] = [view.fromX(px), view.fromY(py)];
    const slack = 2 / view.sx;
    for (let index = 0; index < this.size; index++) {
      const [dx, dy] = [x - this.left(index), y - this.top(index)];
      if (dx >= -slack && dy >= -slack && dx <= BOX.wide + slack && dy <= BOX.high + slack) return index;
    }
    return -1;
  },

  hit(px, py, view) {
    const index = this.indexAt(px, py, view);
    if (index < 0) return null;
    if (!this.grouped) return { key: index, title: nameOf(index), pairs: factsOf(index) };
    const pairs = [
      ["nodes", numberText(DATA.grouped.count[index])],
      ["total", timeText(DATA.grouped.work[index])],
    ];
    if (DATA.grouped.failed[index]) pairs.push(["failed", numberText(DATA.grouped.failed[index])]);
    return { key: index, title: visible(DATA.groups[DATA.grouped.group[index]]), pairs };
  },

  click(px, py, view) {
    const index = this.indexAt(px, py, view);
    if (!this.grouped) Selection.pick(index, "graph");
    else if (index >= 0) Selection.pickGroup(DATA.grouped.group[index]);
  },
};
