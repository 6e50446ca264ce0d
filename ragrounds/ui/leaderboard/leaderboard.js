(() => {
  "use strict";
  const byId = (id) => document.getElementById(id);
  const form = byId("choose");
  const names = ["benchmark", "strategy", "model", "scorer"];
  const boards = [...document.querySelectorAll("section.ranking")].map(readBoard);

  // Every row's words are read once. The tables' own script sorts, transposes and copies them.
  function readBoard(section) {
    const heads = [...section.querySelectorAll("thead th")];
    const at = (name) => heads.findIndex((head) => head.textContent === name);
    const rows = [...section.querySelectorAll("tbody tr")].map((row) => {
      const models = row.cells[at("model")].textContent.split(", ");
      const words = `${row.dataset.w} ${row.cells[at("agent")].textContent} ${models.join(" ")}`.toLowerCase();
      return { row, models, words, strategy: row.dataset.s, open: "i" in row.dataset };
    });
    const scorers = heads.map((head) => head.dataset.scorer).filter(Boolean);
    return { section, heads, rows, scorers, benchmark: section.dataset.benchmark };
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
          && words.every((word) => one.words.includes(word));
        one.row.hidden = !fits;
        left += fits;
      }
      board.section.hidden = left === 0;
      shown += left;
      all += board.rows.length;
    }
    const count = (number) => number.toLocaleString("en");
    byId("count").textContent = shown === all ? `${count(all)} runs` : `${count(shown)} of ${count(all)} runs`;
    remember({ ...wanted, words: words.join(" "), complete: complete ? "1" : "" });
    return wanted;
  }

  // A scorer that is chosen is what the rankings are sorted by.
  function sortByScorer(scorer) {
    for (const { heads } of boards) {
      const head = heads.find((one) => one.dataset.scorer === scorer);
      const way = head && (head.textContent.includes("lower is better") ? "ascending" : "descending");
      for (let tries = 0; head && head.getAttribute("aria-sort") !== way && tries < 3; tries++) {
        head.querySelector("button").click();
      }
    }
  }

  // The filters stand in the address, so that a link shows the same rows.
  function remember(values) {
    const text = new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();
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
    if (event.target.id === "f-scorer" && event.target.value) sortByScorer(event.target.value);
  });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(refresh));
  window.addEventListener("hashchange", () => { recall(); refresh(); });
  recall();
  const { scorer } = refresh();
  if (scorer) sortByScorer(scorer);
})();
