// A canvas with a movable, zoomable view. Charts give it their bounds, a drawing function and a hit test.
//
// World to screen: px = left + (x - x0) * sx, and the same for y. `locked` charts zoom along x only.

class View {
  constructor(holder, chart, { label, locked = false, margin = { left: 0, top: 0 } }) {
    Object.assign(this, { holder, chart, locked, margin, x0: 0, y0: 0, sx: 1, sy: 1, moving: false, frame: 0, pointers: new Map() });
    this.canvas = make("canvas", { tabIndex: 0, role: "img", "aria-label": label });
    this.canvas.setAttribute("aria-describedby", "nodes-title");
    holder.append(this.canvas);
    this.pen = this.canvas.getContext("2d");
    this.listen();
    this.resize();
    new ResizeObserver(() => requestAnimationFrame(() => this.resize())).observe(holder);
    Theme.listeners.push(() => this.redraw());
    Selection.listeners.push(() => this.redraw());
  }

  get plotWidth() {
    return Math.max(1, this.width - this.margin.left);
  }

  get plotHeight() {
    return Math.max(1, this.height - this.margin.top);
  }

  toX(x) {
    return this.margin.left + (x - this.x0) * this.sx;
  }

  toY(y) {
    return this.margin.top + (y - this.y0) * this.sy;
  }

  fromX(px) {
    return this.x0 + (px - this.margin.left) / this.sx;
  }

  fromY(py) {
    return this.y0 + (py - this.margin.top) / this.sy;
  }

  resize() {
    const first = !this.width;
    const [width, height] = [this.holder.clientWidth, this.chart.heightFor(this.holder.clientWidth)];
    if (!width || (width === this.width && height === this.height)) return;
    const ratio = window.devicePixelRatio || 1;
    const centre = first ? null : [this.fromX(this.margin.left + this.plotWidth / 2), this.sx * this.plotWidth];
    Object.assign(this, { width, height, ratio });
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.canvas.style.height = `${height}px`;
    if (first || !this.touched) this.fit();
    else if (this.locked && centre) this.sx = Math.max(this.minimum(), this.sx);
    this.clamp();
    this.redraw();
  }

  /** Scale at which everything is seen. */
  minimum() {
    const { width, height } = this.chart.bounds();
    const sx = this.plotWidth / Math.max(width, 1e-9);
    return this.locked ? sx : Math.min(sx, this.plotHeight / Math.max(height, 1e-9), 1.6);
  }

  fit() {
    const { width, height } = this.chart.bounds();
    this.touched = false;
    this.sx = this.minimum();
    this.sy = this.locked ? 1 : this.sx;
    this.x0 = this.locked ? 0 : (width - this.plotWidth / this.sx) / 2;
    this.y0 = this.locked ? 0 : (height - this.plotHeight / this.sy) / 2;
    this.clamp();
    this.redraw();
  }

  clamp() {
    const { width, height } = this.chart.bounds();
    const keep = (origin, size, seen) => (size <= seen ? (this.locked ? 0 : (size - seen) / 2) : Math.min(Math.max(origin, 0), size - seen));
    this.x0 = keep(this.x0, width, this.plotWidth / this.sx);
    this.y0 = keep(this.y0, height, this.plotHeight / this.sy);
  }

  zoom(factor, px = this.margin.left + this.plotWidth / 2, py = this.margin.top + this.plotHeight / 2) {
    const [x, y] = [this.fromX(px), this.fromY(py)];
    this.touched = true;
    this.sx = Math.min(Math.max(this.sx * factor, this.minimum()), this.chart.maximum());
    if (!this.locked) this.sy = this.sx;
    this.x0 = x - (px - this.margin.left) / this.sx;
    this.y0 = y - (py - this.margin.top) / this.sy;
    this.clamp();
    this.stir();
  }

  pan(dx, dy) {
    this.touched = true;
    this.x0 -= dx / this.sx;
    this.y0 -= dy / this.sy;
    this.clamp();
    this.stir();
  }

  /** Bring a place of the world into view, if it is not. */
  reveal(x, y, width = 0, height = 0) {
    const [left, right] = [this.toX(x), this.toX(x + width)];
    const [top, bottom] = [this.toY(y), this.toY(y + height)];
    if (right < this.margin.left + 10 || left > this.width - 10) this.x0 = x + width / 2 - this.plotWidth / this.sx / 2;
    if (top < this.margin.top || bottom > this.height) this.y0 = y + height / 2 - this.plotHeight / this.sy / 2;
    this.clamp();
    this.redraw();
  }

  /** Redraw, coarsely if that is needed to keep up, and finely when the movement is over. */
  stir() {
    this.moving = true;
    clearTimeout(this.settled);
    this.settled = setTimeout(() => {
      this.moving = false;
      this.redraw();
    }, 140);
    this.redraw();
  }

  redraw() {
    if (!this.width || this.frame) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      this.pen.clearRect(0, 0, this.width, this.height);
      this.chart.draw(this.pen, this);
    });
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  listen() {
    const canvas = this.canvas;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, this.place(event));
      this.travelled = 0;
      Tip.hide();
    });
    canvas.addEventListener("pointermove", (event) => this.moved(event));
    const up = (event) => {
      if (this.pointers.delete(event.pointerId) && event.type === "pointerup" && this.travelled < 5) this.chart.click(...this.place(event), this);
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.hover(null));
    canvas.addEventListener("dblclick", (event) => this.zoom(2.5, ...this.place(event)));
    canvas.addEventListener(
      "wheel",
      (event) => {
        if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas) return;
        event.preventDefault();
        this.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0022)), ...this.place(event));
        Tip.hide();
      },
      { passive: false },
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  moved(event) {
    const before = this.pointers.get(event.pointerId);
    const now = this.place(event);
    if (!before) {
      this.hover(event);
      return;
    }
    if (this.pointers.size === 2) {
      const [other] = [...this.pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
      const apart = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]) || 1;
      this.zoom(apart(now) / apart(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    } else {
      this.pan(now[0] - before[0], now[1] - before[1]);
    }
    this.travelled += Math.abs(now[0] - before[0]) + Math.abs(now[1] - before[1]);
    this.pointers.set(event.pointerId, now);
  }

  hover(event) {
    const found = event ? this.chart.hit(...this.place(event), this) : null;
    if (found) Tip.show(event.clientX, event.clientY, found.title, found.pairs);
    else Tip.hide();
    const key = found ? found.key : -1;
    if (key !== this.hovered) {
      this.hovered = key;
      this.canvas.style.cursor = found ? "pointer" : "";
      this.redraw();
    }
  }

  key(event) {
    const actions = {
      "+": () => this.zoom(1.5),
      "=": () => this.zoom(1.5),
      "-": () => this.zoom(1 / 1.5),
      "0": () => this.fit(),
      Escape: () => Selection.pick(-1),
      ArrowLeft: () => (event.shiftKey ? this.pan(80, 0) : this.chart.step(-1, this)),
      ArrowRight: () => (event.shiftKey ? this.pan(-80, 0) : this.chart.step(1, this)),
      ArrowUp: () => this.pan(0, 60),
      ArrowDown: () => this.pan(0, -60),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  }

  /** Buttons for what wheel and keys do. */
  tools(...extra) {
    const button = (text, label, action) => make("button", { type: "button", textContent: text, title: label, "aria-label": label, onclick: action });
    find(`.tools[data-for="${this.holder.id}"]`).append(
      ...extra,
      button("−", "Zoom out", () => this.zoom(1 / 1.6)),
      button("+", "Zoom in", () => this.zoom(1.6)),
      button("Fit", "Show everything", () => this.fit()),
    );
  }
}

/** The text shortened so that it fits into `room` pixels in the pen's present font. */
function fitted(pen, text, room) {
  const full = pen.measureText(text).width;
  if (full <= room) return text;
  let most = Math.max(2, Math.floor((text.length * room) / full));
  while (most > 2 && pen.measureText(shorten(text, most)).width > room) most--;
  return shorten(text, most);
}

/** Black or white, whichever reads better on a colour. */
function inkOn(colour) {
  const [r, g, b] = channels(colour);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#10141b" : "#ffffff";
}
