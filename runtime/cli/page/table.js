// The table of nodes: what the charts show, for reading, searching, sorting, and for screen readers.

const Table = {
  page: 0,
  perPage: 50,
  columns: [
    { name: "Node", text: (node) => visible(NODES.id[node]), key: (node) => NODES.id[node] },
    { name: DATA.word[0].toUpperCase() + DATA.word.slice(1), text: (node) => visible(DATA.groups[NODES.group[node]]), key: (node) => DATA.groups[NODES.group[node]], left: true },
    { name: "State", text: (node) => NODES.states[NODES.state[node]], key: (node) => NODES.states[NODES.state[node]], left: true },
    { name: "Attempts", text: (node) => numberText(NODES.attempts[node]), key: (node) => NODES.attempts[node] },
    { name: "Start", text: (node) => timeText(NODES.start[node]), key: (node) => NODES.start[node] },
    { name: "Duration", text: (node) => timeText(NODES.length[node]), key: (node) => NODES.length[node] },
    { name: "Wait", text: (node) => timeText(NODES.wait[node]), key: (node) => NODES.wait[node] },
    { name: "Worker", text: (node) => (DATA.workers.of[node] < 0 ? "–" : String(DATA.workers.of[node] + 1)), key: (node) => DATA.workers.of[node] },
  ],

  setUp() {
    find("#nodes").hidden = false;
    const note = DATA.whole
      ? plural(COUNT, "node")
      : `${numberText(COUNT)} of ${plural(DATA.total, "node")}: failed, run more than once, on the critical path, and the longest; the timeline shows the same`;
    find("#nodes-note").textContent = `${note}. Sort by clicking a heading.`;
    this.sort = { column: 4, down: false };
    this.wanted = "";
    this.body = make("tbody");
    find("#node-table").append(this.head(), this.body);
    find("#find").addEventListener("input", (event) => {
      this.wanted = event.target.value.toLowerCase();
      this.page = 0;
      this.refresh();
    });
    Selection.listeners.push(() => this.mark());
    this.refresh();
  },

  head() {
    const row = make("tr");
    this.columns.forEach((column, index) => {
      const cell = make("th", { scope: "col", className: column.left ? "text" : "" });
      const button = make("button", { type: "button", textContent: column.name });
      button.onclick = () => {
        const numeric = index > 2;
        this.sort = { column: index, down: this.sort.column === index ? !this.sort.down : numeric };
        this.page = 0;
        this.refresh();
      };
      cell.append(button);
      row.append(cell);
      column.cell = cell;
    });
    return make("thead", {}, row);
  },

  matching() {
    const words = this.wanted.split(/\s+/).filter(Boolean);
    const all = [...Array(COUNT).keys()];
    if (!words.length) return all;
    return all.filter((node) => {
      const text = `${NODES.id[node]} ${DATA.groups[NODES.group[node]]} ${NODES.states[NODES.state[node]]}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
  },

  refresh() {
    const { column, down } = this.sort;
    const key = this.columns[column].key;
    const keys = new Map();
    this.rows = this.matching();
    for (const node of this.rows) keys.set(node, key(node));
    this.rows.sort((a, b) => {
      const [x, y] = [keys.get(a), keys.get(b)];
      const order = typeof x === "string" ? (x < y ? -1 : x > y ? 1 : 0) : x - y;
      return (down ? -order : order) || a - b;
    });
    this.columns.forEach((each, index) => {
      if (index === column) each.cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      else each.cell.removeAttribute("aria-sort");
    });
    this.show();
  },

  show() {
    const first = this.page * this.perPage;
    const shown = this.rows.slice(first, first + this.perPage);
    this.body.replaceChildren(...shown.map((node) => this.row(node)));
    const last = Math.max(0, Math.ceil(this.rows.length / this.perPage) - 1);
    const turn = (text, by, possible) => {
      const button = make("button", { type: "button", textContent: text, disabled: !possible });
      button.onclick = () => {
        this.page += by;
        this.show();
      };
      return button;
    };
    const range = this.rows.length ? `${numberText(first + 1)}–${numberText(first + shown.length)} of ${numberText(this.rows.length)}` : "no node matches";
    find(".pager").replaceChildren(
      turn("Previous", -1, this.page > 0),
      make("span", { textContent: range, "aria-live": "polite" }),
      turn("Next", 1, this.page < last),
    );
    this.mark();
  },

  row(node) {
    const row = make("tr", {});
    row.dataset.row = node;
    this.columns.forEach((column, index) => {
      const text = column.text(node);
      const cell = make("td", { className: column.left ? "text" : "" });
      if (index === 0) {
        cell.append(make("button", { type: "button", textContent: text, title: text }));
      } else {
        cell.textContent = text;
        if (column.left) cell.title = text;
        if (index === 2) cell.classList.add(`state-${text}`);
      }
      row.append(cell);
    });
    row.onclick = () => Selection.pick(node, "table");
    return row;
  },

  mark() {
    for (const row of this.body.children) row.setAttribute("aria-selected", String(+row.dataset.row === Selection.node));
  },
};
