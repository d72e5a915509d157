// Filters and order of the table of findings; the table itself is there without this.

const body = find("#findings tbody");
const rows = [...body.rows];
const GRADE_ORDER = ["leak", "suspect", "info"];
const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
const chosen = {};

/** What a row is sorted by in a column. */
function key(row, column) {
  if (column === 0) return GRADE_ORDER.indexOf(row.dataset.grade);
  const cell = row.cells[column];
  return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
}

function refresh() {
  const words = find("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const fits = Object.entries(chosen).every(([column, text]) => !text || row.cells[column].textContent === text) && words.every((word) => texts.get(row).includes(word));
    row.hidden = !fits;
    shown += fits;
  }
  find("#found").textContent = `${shown} of ${rows.length}`;
}

function filter(column, name) {
  const values = [...new Set(rows.map((row) => row.cells[column].textContent))].filter(Boolean).sort();
  if (values.length < 2) return;
  const options = ["", ...values].map((value) => make("option", { value, textContent: value || "all" }));
  const list = make("select", { "aria-label": name }, ...options);
  list.onchange = () => {
    chosen[column] = list.value;
    refresh();
  };
  find("#filters").append(make("label", {}, name, list));
}

const heads = [...document.querySelectorAll("#findings thead th")];
heads.forEach((head, column) => {
  const button = make("button", { type: "button", textContent: head.textContent });
  button.onclick = () => {
    const down = head.getAttribute("aria-sort") !== "descending" && column > 2;
    const turned = head.getAttribute("aria-sort") === "ascending" && column <= 2;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down || turned ? "descending" : "ascending");
    const sign = down || turned ? -1 : 1;
    rows.sort((a, b) => {
      const [x, y] = [key(a, column), key(b, column)];
      return sign * (typeof x === "string" ? x.localeCompare(y) : x - y);
    });
    body.append(...rows);
  };
  head.replaceChildren(button);
});

find("#filters").hidden = false;
[[0, "Grade"], [1, "Kind"], [6, "Node type"], [7, "Workflow"], [8, "Owner"]].forEach(([column, name]) => filter(column, name));
find("#search").oninput = refresh;
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target.tagName !== "INPUT") {
    find("#search").focus();
    event.preventDefault();
  }
});
refresh();
