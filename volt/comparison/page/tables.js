// Tables that sort at a click: those in the page, row by row, and the table of tokens, a page of rows at a time.

const ROWS = 25, PRINTED = 200; // of the table of tokens, shown at once
const grouped = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** Numbers by size, texts by alphabet, nothing last in either direction. */
function compareValues(a, b, descending) {
  if (a === null || b === null) return (a === null) - (b === null);
  const order = a < b ? -1 : a > b ? 1 : 0;
  return descending ? -order : order;
}

/** Put a button into a header cell, which sorts and says so; numbers start with the greatest. */
function makeSorter(header, sort) {
  const button = element("button", { type: "button", className: "sorter", title: header.title }, header.textContent);
  header.replaceChildren(button);
  button.addEventListener("click", () => {
    const first = header.classList.contains("number") ? "descending" : "ascending";
    const other = first === "descending" ? "ascending" : "descending";
    const direction = header.getAttribute("aria-sort") === first ? other : first;
    for (const sibling of header.parentNode.children) sibling.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", direction);
    sort(direction === "descending");
  });
}

function makeSortable(table) {
  const body = table.tBodies[0];
  const valueOf = (row, column) => JSON.parse(row.cells[column].dataset.value);
  [...table.tHead.rows[0].cells].forEach((header, column) => makeSorter(header, (descending) => {
    const rows = [...body.rows].map((row) => [valueOf(row, column), row]);
    rows.sort((a, b) => compareValues(a[0], b[0], descending));
    body.append(...rows.map(([, row]) => row));
  }));
}

/** columns: name → values, of the same length;  names: those shown, in the order of the header cells. */
function makeTokenTable(section, columns, names, marker) {
  const table = section.querySelector("table"), search = section.querySelector("input");
  const status = section.querySelector("[role=status]"), buttons = section.querySelectorAll("[data-turn]");
  const all = columns.token.map((_, row) => row), shownText = columns.token.map((token) => visible(token).toLowerCase());
  let sorted = [...all].sort((a, b) => compareValues(columns.rank[a], columns.rank[b], false)), found = sorted, start = 0, nRows = ROWS;

  function show() {
    const rows = found.slice(start, start + nRows);
    table.tBodies[0].replaceChildren(...rows.map((row) => element("tr", {}, ...names.map((name) => cell(name, row)))));
    const range = found.length ? `${grouped.format(start + 1)}–${grouped.format(start + rows.length)} of ` : "";
    status.textContent = `${range}${grouped.format(found.length)} tokens`;
    for (const button of buttons) button.disabled = !turned(button.dataset.turn, true);
  }
  function cell(name, row) {
    const value = columns[name][row];
    if (name === "token") return element("th", { scope: "row", value }, tokenText(value, marker));
    return element("td", { className: "number", value }, value === null ? "–" : grouped.format(value));
  }
  function filter() {
    const query = search.value.toLowerCase();
    found = query ? sorted.filter((row) => shownText[row].includes(query)) : sorted;
    start = 0;
    show();
  }
  function turned(turn, ask) {
    const last = Math.max(0, Math.floor((found.length - 1) / ROWS) * ROWS);
    const to = { first: 0, back: start - ROWS, on: start + ROWS, last }[turn];
    const goes = to >= 0 && to <= last && to !== start;
    if (!ask && goes) start = to;
    return goes;
  }
  [...table.tHead.rows[0].cells].forEach((header, column) => makeSorter(header, (descending) => {
    const values = columns[names[column]];
    sorted = [...all].sort((a, b) => compareValues(values[a], values[b], descending) || a - b);
    filter();
  }));
  for (const button of buttons) {
    button.addEventListener("click", () => {
      if (turned(button.dataset.turn, false)) show();
    });
  }
  search.addEventListener("input", filter);
  for (const [name, n] of [["beforeprint", PRINTED], ["afterprint", ROWS]]) {
    addEventListener(name, () => {
      nRows = n;
      show();
    });
  }
  filter();
}
