// What a reader can choose: search, filters, groups, what sizes show; and the beginning of it all.

const View = {
  /** What is zoomed or wanted is another: everything that depends on it is shown anew. */
  changed() {
    find("#out").disabled = Graph.focus === 0;
    Graph.choose(Graph.chosen >= 0 ? Graph.chosen : Graph.focus);
    this.count();
    Graph.redraw();
    clearTimeout(this.later); // the table is long work in a large profile: the graph goes first
    this.later = setTimeout(() => Table.refresh(), 60);
  },

  /** Filters or groups are others: the tree is built again. The zoomed frame is found by its names, if it is there. */
  rebuild() {
    const names = [];
    if (Tree.frame) for (let node = Graph.focus; node > 0; node = Tree.parent[node]) names.push(Tree.frame[node]);
    Tree.build();
    let focus = 0;
    for (const frame of names.reverse()) {
      const family = Tree.children.subarray(Tree.first[focus], Tree.first[focus + 1]);
      const next = family.find((child) => Tree.frame[child] === frame);
      if (next === undefined) break;
      focus = next;
    }
    Object.assign(Graph, { focus, chosen: focus, hover: -1 });
    find("#tip").hidden = true;
    this.wants();
    this.changed();
  },

  search(text) {
    find("#search").value = text;
    this.wants();
    this.count();
    Graph.redraw();
    Table.show();
  },

  /** Which frames the text in the field wants. */
  wants() {
    const text = find("#search").value.trim();
    Graph.wanted = null;
    find("#search").setCustomValidity("");
    if (!text) return;
    let fits = (name) => name.toLowerCase().includes(text.toLowerCase());
    const pattern = /^\/(.+?)\/?$/.exec(text);
    if (pattern) {
      try {
        const expression = new RegExp(pattern[1], "i");
        fits = (name) => expression.test(name);
      } catch (wrong) {
        find("#search").setCustomValidity(String(wrong.message));
        return;
      }
    }
    Graph.wanted = Uint8Array.from(Frames.names, (name, frame) => fits(name) || fits(Frames.place(frame)));
  },

  /** How much of what is zoomed is in wanted frames. */
  count() {
    const node = Graph.focus;
    const whole = Tree.size[node];
    const invalid = find("#search").validationMessage;
    if (!Graph.wanted) {
      find("#found").textContent = invalid;
      return;
    }
    const part = Tree.matched(node, Graph.wanted);
    find("#found").textContent = `${amount(part)}, ${percent(part, whole)}`;
  },

  reset() {
    Object.assign(Graph, { focus: 0, chosen: 0 });
    find("#search").value = "";
    this.wants();
    this.changed();
  },

  out() {
    if (Graph.focus > 0) Graph.zoom(Tree.parent[Graph.focus]);
  },

  flip() {
    Graph.up = !Graph.up;
    find("#flip").setAttribute("aria-pressed", String(Graph.up));
    Graph.redraw();
  },

  callers() {
    Tree.inverted = !Tree.inverted;
    find("#callers").setAttribute("aria-pressed", String(Tree.inverted));
    Graph.focus = 0;
    this.rebuild();
  },

  keys() {
    const keys = find("#keys");
    keys.hidden = !keys.hidden;
    find("#help").setAttribute("aria-expanded", String(!keys.hidden));
  },
};

const VALUES_MAX = 500; // in one list: the heaviest

/** Whether nearly every stack has a value of its own, as with ages: such a label is no choice. */
const alike = (values) => values.length > 30 && values.length > DATA.sampleCount / 3;

/** Values of a dimension, the heaviest first. */
function valuesOf(dimension) {
  const sums = new Map();
  const { rows, width } = Stacks;
  for (let row = 0; row < rows.length; row += width) {
    const text = dimension.of(row);
    sums.set(text, (sums.get(text) || 0) + rows[row + 4] + (DATA.diff ? rows[row + 6] : 0));
  }
  return [...sums].sort((a, b) => b[1] - a[1]);
}

function choice(label, options, chosen, listener) {
  const list = make("select", { "aria-label": label }, ...options.map(([value, text]) => make("option", { value, textContent: text, selected: value === chosen })));
  list.onchange = () => listener(list.value);
  return make("label", {}, label, list);
}

function choices() {
  const bar = find("#choices");
  if (Dimensions.length) {
    const names = Dimensions.map((dimension) => dimension.name);
    const start = DATA.groups.filter((name) => names.includes(name));
    const sets = [[], ...names.map((name) => [name])];
    if (names.includes("process") && names.includes("thread")) sets.push(["process", "thread"]);
    if (start.length > 1) sets.push(start);
    const options = [...new Map(sets.map((set) => [set.join(","), set.join(", then ") || "nothing"]))];
    const group = (value) => {
      Tree.groups = value.split(",").map((name) => Dimensions.find((dimension) => dimension.name === name)).filter(Boolean);
    };
    group(start.join(","));
    bar.append(choice("Group by", options, start.join(","), (value) => { group(value); View.rebuild(); }));
  }
  for (const dimension of Dimensions) {
    const values = valuesOf(dimension);
    if (values.length < 2 || alike(values)) continue;
    const all = values.reduce((sum, [, value]) => sum + value, 0);
    const options = [["", "all"], ...values.slice(0, VALUES_MAX).map(([text, value]) => [text, `${visible(text)} (${percent(value, all)})`])];
    bar.append(choice(dimension.name, options, "", (value) => {
      if (value) Tree.filters.set(dimension, value);
      else Tree.filters.delete(dimension);
      View.rebuild();
    }));
  }
  if (DATA.diff) {
    const options = [["both", "before and after"], ["after", "after"], ["before", "before"]];
    bar.append(choice("Widths", options, Tree.sizeBy, (value) => {
      Tree.sizeBy = value;
      Tree.order();
      View.changed();
    }));
    bar.append(make("span", { className: "up", textContent: "■ grew" }), make("span", { className: "down", textContent: "■ shrank" }));
  }
  bar.hidden = !bar.children.length;
}

document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape") View.reset();
  else if (typing) return;
  else if (event.key === "/") { find("#search").focus(); event.preventDefault(); }
  else if (event.key === "Backspace") View.out();
  else if (event.key === "i") View.flip();
  else if (event.key === "c") View.callers();
  else if (event.key === "?") View.keys();
});

find("#graph").hidden = false;
find("#search").oninput = () => {
  clearTimeout(View.typing);
  View.typing = setTimeout(() => View.search(find("#search").value), 80);
};
find("#out").onclick = () => View.out();
find("#reset").onclick = () => View.reset();
find("#callers").onclick = () => View.callers();
find("#flip").onclick = () => View.flip();
find("#help").onclick = () => View.keys();
Graph.listeners.push(() => { document.documentElement.dataset.drawn = String(Graph.drawn); });
Graph.setUp();
Theme.setUp();
Table.setUp();
choices();
View.rebuild();
