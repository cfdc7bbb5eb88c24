// Sorts the small tables of the page by the column whose header is pressed.
"use strict";
for (const header of document.querySelectorAll("table.sortable thead th:not([data-fixed])")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...header.childNodes);
  header.append(button);
  button.addEventListener("click", () => {
    const body = header.closest("table").tBodies[0];
    const descending = header.getAttribute("aria-sort") === "ascending";
    const keys = [...body.rows].map((row) => {
      const cell = row.cells[header.cellIndex];
      return [cell.dataset.order === undefined ? cell.textContent : Number(cell.dataset.order), row];
    });
    const collator = new Intl.Collator("en", { numeric: true });
    const compare = (a, b) => (typeof a === "number" ? a - b : collator.compare(a, b));
    keys.sort(([a], [b]) => (descending ? compare(b, a) : compare(a, b)));
    for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", descending ? "descending" : "ascending");
    body.append(...keys.map(([, row]) => row));
  });
}
