// Tables of figures: sorted by a column.
const SCALES = { "%": 1, k: 1e3, M: 1e6, G: 1e9, ms: 1e-3, s: 1, min: 60, h: 3600, d: 86400 };

// The figure that a cell begins with, times and thousands in one unit; null: it holds none.
function figureOf(cell) {
  const text = cell.trim().replace(/\u2212/g, "-");
  const found = /^[<>≤≥~#$\s]*([+-]?)[$]?(\d[\d,]*(?:\.\d+)?|\.\d+)(e[+-]?\d+)?/i.exec(text);
  if (!found) return null;
  const rest = text.slice(found[0].length);
  const scale = /^ ?(%|ms|min|[kMGshd])(?![a-z])/.exec(rest);
  let value = Number(found[2].replace(/,/g, "") + (found[3] || "")) * (scale ? SCALES[scale[1]] : 1);
  const more = scale && "minhd".includes(scale[1]) ? /^ (\d+(?:\.\d+)?) (min|s)\b/.exec(rest.slice(scale[0].length)) : null;
  if (more) value += Number(more[1]) * SCALES[more[2]];
  if (text.startsWith("<")) value -= 1e-12;
  return found[1] === "-" ? -value : value;
}

function announced(text) {
  const place = document.getElementById("announced");
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = text; });
}

function button(text, act) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  made.addEventListener("click", act);
  return made;
}

function sortBy(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const figures = heads[column].classList.contains("right");
  const ways = figures ? ["descending", "ascending", null] : ["ascending", "descending", null];
  const way = ways[(ways.indexOf(heads[column].getAttribute("aria-sort")) + 1) % 3];
  heads.forEach((head) => head.removeAttribute("aria-sort"));
  if (way) heads[column].setAttribute("aria-sort", way);
  const turn = way === "descending" ? -1 : 1;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  rows.forEach((row, place) => { row.dataset.place ??= place; });
  const keyed = rows.map((row) => {
    const text = row.cells[column].textContent;
    return { row, place: Number(row.dataset.place), key: figures ? figureOf(text) : text };
  });
  keyed.sort((a, b) => {
    if (way === null || a.key === b.key) return a.place - b.place;
    if (a.key === null || b.key === null) return a.key === null ? 1 : -1;  // what is no figure is last, either way
    const order = figures ? a.key - b.key : a.key.localeCompare(b.key, "en", { numeric: true });
    return turn * order || a.place - b.place;
  });
  body.append(...keyed.map(({ row }) => row));
  const name = heads[column].textContent;
  announced(way ? `Sorted by ${name}, ${way}.` : "In the first order again.");
}

function prepareTable(figure) {
  const caption = figure.querySelector("figcaption").textContent;
  const scroll = figure.querySelector(".scroll");
  const table = scroll.querySelector("table");
  if (!table.tHead || !table.tBodies.length) return;
  // Rows that belong to the one above them keep their places.
  const heads = "still" in figure.dataset ? [] : [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const made = button("", () => sortBy(table, column));
    made.append(...head.childNodes);
    head.append(made);
  });
  reachable(scroll, caption);
  window.addEventListener("resize", () => reachable(scroll, caption));
}

// What scrolls to the side can be focused and has a name; what does not is no stop for the keyboard.
function reachable(scroll, name) {
  const scrolls = scroll.scrollWidth > scroll.clientWidth;
  for (const [key, value] of Object.entries({ tabindex: "0", role: "region", "aria-label": name })) {
    if (scrolls) scroll.setAttribute(key, value);
    else scroll.removeAttribute(key);
  }
}

function startTables() {
  const place = document.createElement("div");
  place.id = "announced";
  place.className = "unseen";
  place.setAttribute("role", "status");
  document.body.append(place);
  document.querySelectorAll("figure.sheet").forEach(prepareTable);
}
