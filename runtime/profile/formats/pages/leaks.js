// Filters and order of the table of findings; the table itself is there without this.

const body = document.querySelector("#findings tbody");
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
  const words = document.querySelector("#search").value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const row of rows) {
    const fits = Object.entries(chosen).every(([column, text]) => !text || row.cells[column].textContent === text) && words.every((word) => texts.get(row).includes(word));
    row.hidden = !fits;
    shown += fits;
  }
  document.querySelector("#found").textContent = `${shown} of ${rows.length}`;
}

function filter(column, name) {
  const values = [...new Set(rows.map((row) => row.cells[column].textContent))].filter(Boolean).sort();
  if (values.length < 2) return;
  const list = document.createElement("select");
  list.setAttribute("aria-label", name);
  for (const value of ["", ...values]) {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = value || "all";
    list.append(option);
  }
  list.onchange = () => {
    chosen[column] = list.value;
    refresh();
  };
  const label = document.createElement("label");
  label.append(name, list);
  document.querySelector("#filters").append(label);
}

const heads = [...document.querySelectorAll("#findings thead th")];
heads.forEach((head, column) => {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = head.textContent;
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

document.querySelector("#filters").hidden = false;
[[0, "Grade"], [1, "Kind"], [6, "Node type"], [7, "Workflow"], [8, "Owner"]].forEach(([column, name]) => filter(column, name));
document.querySelector("#search").oninput = refresh;
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && event.target.tagName !== "INPUT") {
    document.querySelector("#search").focus();
    event.preventDefault();
  }
});
refresh();
