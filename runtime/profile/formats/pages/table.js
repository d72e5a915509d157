// Functions below what is zoomed: by self or total, and with a profile from before by what changed.

const Table = {
  rowsMax: 200,
  down: true,

  setUp() {
    const shares = (one, all) => (row) => percent(row[one], Tree[all][Graph.focus]);
    this.columns = [
      { name: "Function", text: (row) => Frames.names[row.frame], key: (row) => Frames.names[row.frame] },
      { name: "Self", text: (row) => amount(row.self), key: (row) => row.self },
      { name: "%", text: shares("self", "value"), key: (row) => row.self },
      { name: "Total", text: (row) => amount(row.total), key: (row) => row.total },
      { name: "%", text: shares("total", "value"), key: (row) => row.total },
    ];
    if (DATA.diff) {
      this.columns.push(
        { name: "Self before", text: (row) => amount(row.selfBefore), key: (row) => row.selfBefore },
        { name: "Change", text: (row) => `${row.self >= row.selfBefore ? "+" : ""}${amount(row.self - row.selfBefore)}`, key: (row) => Math.abs(row.self - row.selfBefore), sign: true },
        { name: "of it", text: (row) => change(row.selfBefore, row.self), key: (row) => (row.selfBefore ? (row.self - row.selfBefore) / row.selfBefore : row.self ? Infinity : 0), sign: true },
      );
    }
    this.column = DATA.diff ? 6 : 1;
    const head = make("tr");
    this.columns.forEach((column, index) => {
      const button = make("button", { type: "button", textContent: column.name });
      button.onclick = () => {
        this.down = this.column === index ? !this.down : index > 0;
        this.column = index;
        this.show();
      };
      column.cell = make("th", { scope: "col" }, button);
      head.append(column.cell);
    });
    find("#table thead").replaceChildren(head);
    this.body = find("#table tbody");
  },

  refresh() {
    this.rows = Tree.functions(Graph.focus);
    this.show();
  },

  show() {
    const wanted = Graph.wanted;
    const { key } = this.columns[this.column];
    const rows = (wanted ? this.rows.filter((row) => wanted[row.frame]) : this.rows).slice();
    rows.sort((a, b) => {
      const [x, y] = [key(a), key(b)];
      const order = typeof x === "string" ? (x < y ? -1 : x > y ? 1 : 0) : x === y ? 0 : x - y;
      return (this.down ? -order : order) || a.frame - b.frame;
    });
    this.columns.forEach((column, index) => {
      if (index === this.column) column.cell.setAttribute("aria-sort", this.down ? "descending" : "ascending");
      else column.cell.removeAttribute("aria-sort");
    });
    const shown = rows.slice(0, this.rowsMax);
    const where = Graph.focus ? `below ${Frames.names[Tree.frame[Graph.focus]]}` : "of all that is shown";
    find("#functions-note").textContent = `${plain.format(shown.length)} of ${plain.format(this.rows.length)} ${where}; a click searches`;
    this.body.replaceChildren(...shown.map((row) => this.line(row)));
  },

  line(row) {
    const place = Frames.place(row.frame);
    const line = make("tr", {}, make("th", { scope: "row", title: place }, Frames.names[row.frame], " ", make("small", { textContent: place })));
    line.dataset.frame = row.frame;
    for (const column of this.columns.slice(1)) {
      const cell = make("td", { textContent: column.text(row) });
      if (column.sign && row.self !== row.selfBefore) cell.className = row.self > row.selfBefore ? "up" : "down";
      line.append(cell);
    }
    line.onclick = () => View.search(Frames.names[row.frame]);
    return line;
  },
};
