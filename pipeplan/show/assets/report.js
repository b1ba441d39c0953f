"use strict";
// Charts are complete without this script; it adds zooming, the line that says what is under the focus, and sorting.

function say(chart, mark) {
  const line = chart.querySelector(".said");
  const title = mark.querySelector("title");
  if (line && title) line.textContent = title.textContent;
}

function move(marks, mark, step) {
  const next = marks[Math.min(marks.length - 1, Math.max(0, marks.indexOf(mark) + step))];
  mark.setAttribute("tabindex", "-1");
  next.setAttribute("tabindex", "0");
  next.focus();
}

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -1e9, End: 1e9 };

// Marks are looked up when something happens, for those of some charts are drawn later.
for (const chart of document.querySelectorAll(".chart")) {
  const marks = () => [...chart.querySelectorAll(".mark")];
  const at = (event) => event.target.closest(".mark");
  marks().forEach((mark, i) => mark.setAttribute("tabindex", i === 0 ? "0" : "-1"));
  for (const kind of ["focusin", "pointerover"]) chart.addEventListener(kind, (event) => at(event) && say(chart, at(event)));
  chart.addEventListener("click", (event) => at(event)?.focus());
  chart.addEventListener("keydown", (event) => {
    if (!at(event) || !(event.key in STEPS)) return;
    event.preventDefault();
    move(marks(), at(event), STEPS[event.key]);
  });
  const zoom = chart.querySelector("input[type=range]");
  const picture = chart.querySelector("svg.picture, svg.graph");
  if (zoom && picture) {
    const labels = [...picture.querySelectorAll("text[data-needs]")];
    zoom.addEventListener("input", () => {
      const zoomed = Number(zoom.value) > 100;
      picture.style.width = zoomed ? zoom.value + "%" : "";
      const wide = zoomed ? picture.getBoundingClientRect().width : 0;
      for (const label of labels) label.style.display = Number(label.dataset.needs) <= wide ? "inline" : "";
    });
  }
}

for (const table of document.querySelectorAll("table")) {
  table.querySelectorAll("th").forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = table.tBodies[0];
      const text = (row) => row.cells[column].textContent.trim();
      const number = (row) => { const value = parseFloat(text(row)); return Number.isNaN(value) ? null : value; };
      const rows = [...body.rows].sort((a, b) => {
        const x = number(a), y = number(b);
        const order = x !== null && y !== null ? x - y : text(a).localeCompare(text(b));
        return up ? order : -order;
      });
      body.append(...rows);
    });
  });
}
