(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const form = byId("filters");
  const names = ["benchmark", "strategy", "model", "scorer"];
  const boards = [...document.querySelectorAll("section.ranking")].map(readBoard);

  // Every row's words are read once; the table itself is what is shown and moved.
  function readBoard(section) {
    const heads = [...section.querySelectorAll("thead th")];
    const modelAt = heads.findIndex((head) => head.textContent === "model");
    const rows = [...section.querySelectorAll("tbody tr")].map((row) => {
      const models = row.cells[modelAt].textContent.split(", ");
      return {
        row, models, strategy: row.dataset.s, open: "i" in row.dataset,
        words: `${row.dataset.w} ${row.cells[heads.findIndex((head) => head.textContent === "agent")].textContent}`.toLowerCase(),
      };
    });
    const scorers = heads.map((head) => head.dataset.scorer).filter(Boolean);
    heads.forEach((head, column) => "still" in head.dataset || sortable(section, head, column));
    return { section, heads, rows, scorers, benchmark: section.dataset.benchmark };
  }

  function sortable(section, head, column) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const figures = head.classList.contains("r");
      const before = head.getAttribute("aria-sort");
      const way = before === "descending" ? "ascending" : before === "ascending" ? "descending"
        : figures ? "descending" : "ascending";
      sort(section, head, column, way);
    });
  }

  // What is not known stands last, whichever way.
  function sort(section, head, column, way) {
    const body = section.querySelector("tbody");
    const sign = way === "descending" ? -1 : 1;
    const keyed = [...body.rows].map((row, place) => [key(row.cells[column], head), place, row]);
    keyed.sort(([a, i], [b, j]) => {
      if (a === null || b === null) return (a === null) - (b === null) || i - j;
      const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
      return sign * order || i - j;
    });
    body.append(...keyed.map(([, , row]) => row));
    for (const other of section.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", way);
  }

  function key(cell, head) {
    const text = cell.textContent.trim();
    const figures = head.classList.contains("r") || cell.classList.contains("place");
    if (!figures) return text.toLowerCase();
    const value = parseFloat(text.replace(/[$,<]/g, ""));
    return Number.isNaN(value) ? null : value;
  }

  function refresh() {
    const wanted = Object.fromEntries(names.map((name) => [name, byId(`f-${name}`).value]));
    const words = byId("f-words").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const complete = byId("f-complete").checked;
    let shown = 0, all = 0;
    for (const board of boards) {
      const here = (!wanted.benchmark || board.benchmark === wanted.benchmark)
        && (!wanted.scorer || board.scorers.includes(wanted.scorer));
      let left = 0;
      for (const one of board.rows) {
        const fits = here && (!wanted.strategy || one.strategy === wanted.strategy)
          && (!wanted.model || one.models.includes(wanted.model)) && !(complete && one.open)
          && words.every((word) => one.words.includes(word) || one.models.join(" ").toLowerCase().includes(word));
        one.row.hidden = !fits;
        left += fits;
      }
      board.section.hidden = left === 0;
      shown += left;
      all += board.rows.length;
    }
    byId("count").textContent = shown === all ? `${all.toLocaleString("en")} runs`
      : `${shown.toLocaleString("en")} of ${all.toLocaleString("en")} runs`;
    remember({ ...wanted, words: words.join(" "), complete: complete ? "1" : "" });
    return wanted;
  }

  // A scorer that is chosen is what the rankings are sorted by.
  function byScorer(scorer) {
    for (const board of boards) {
      const column = board.heads.findIndex((head) => head.dataset.scorer === scorer);
      if (column >= 0) {
        const lower = board.heads[column].textContent.includes("lower is better");
        sort(board.section, board.heads[column], column, lower ? "ascending" : "descending");
      }
    }
  }

  // The filters stand in the address, so that a link shows the same rows.
  function remember(values) {
    const kept = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
    const text = kept.toString();
    if (text || location.hash.includes("=")) history.replaceState(null, "", text ? `#${text}` : location.pathname);
  }

  function recall() {
    const text = location.hash.slice(1);
    if (!text.includes("=")) return;
    const values = new URLSearchParams(text);
    for (const name of names) {
      const field = byId(`f-${name}`), value = values.get(name) || "";
      if ([...field.options].some((option) => option.value === value)) field.value = value;
    }
    byId("f-words").value = values.get("words") || "";
    byId("f-complete").checked = values.get("complete") === "1";
  }

  form.hidden = false;
  form.addEventListener("input", (event) => {
    refresh();
    if (event.target.id === "f-scorer" && event.target.value) byScorer(event.target.value);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(refresh));
  window.addEventListener("hashchange", () => { recall(); refresh(); });
  recall();
  const { scorer } = refresh();
  if (scorer) byScorer(scorer);
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
})();
