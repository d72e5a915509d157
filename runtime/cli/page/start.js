// Puts the parts together: legend, inspector of the selected node, choice of colours.

const NEAR_MAX = 14; // parents or children named in the inspector

function legend() {
  const holder = find(".legend");
  const counts = new Map();
  for (const [index, group] of DATA.grouped.group.entries()) counts.set(group, (counts.get(group) ?? 0) + DATA.grouped.count[index]);
  DATA.groups.forEach((name, index) => {
    const dot = make("i", { className: "dot" });
    dot.dataset.group = index;
    const button = make("button", { type: "button", title: visible(name), "aria-pressed": "false" });
    button.append(dot, make("span", { textContent: shortGroup(index) }), make("small", { textContent: numberText(counts.get(index) ?? 0) }));
    button.onclick = () => Selection.pickGroup(index);
    holder.append(button);
  });
  Selection.listeners.push(() => {
    [...holder.children].forEach((button, index) => button.setAttribute("aria-pressed", String(index === Selection.group)));
  });
}

function near(name, nodes) {
  const line = make("div", { className: "near" }, make("span", { textContent: nodes.length ? `${name}:` : `no ${name}` }));
  for (const node of nodes.slice(0, NEAR_MAX)) {
    line.append(make("button", { type: "button", textContent: shortId(node), title: nameOf(node), onclick: () => Selection.pick(node) }));
  }
  if (nodes.length > NEAR_MAX) line.append(make("span", { textContent: `and ${numberText(nodes.length - NEAR_MAX)} more` }));
  return line;
}

function inspect() {
  const panel = find("#inspector");
  const node = Selection.node;
  panel.hidden = node < 0;
  if (node < 0) return;
  const close = make("button", { type: "button", textContent: "Close", onclick: () => Selection.pick(-1) });
  const list = make("dl");
  for (const [name, text] of factsOf(node)) list.append(make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: text })));
  panel.replaceChildren(
    make("div", { className: "head" }, make("b", { textContent: nameOf(node) }), close),
    list,
    near("parents", [...new Set(parentsOf(node))]),
    near("children", [...new Set(childrenOf(node))]),
  );
}

function pathList() {
  const byId = new Map(DATA.path.map((node) => [NODES.id[node], node]));
  for (const item of document.querySelectorAll(".path li")) {
    const node = byId.get(item.dataset.node);
    if (node === undefined) continue;
    item.style.cursor = "pointer";
    item.onclick = () => Selection.pick(node);
  }
}

legend();
Theme.setUp();
Gantt.setUp();
Graph.setUp();
Table.setUp();
pathList();
Selection.listeners.push(inspect);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    Tip.hide();
    if (Selection.node >= 0) Selection.pick(-1);
  }
});
