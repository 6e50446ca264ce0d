// Tables of figures: sorted by a column, transposed, copied as Markdown and LaTeX in the forms of `ragrounds compare`.
const TEX = {
  "\\": "\\textbackslash{}", "&": "\\&", "%": "\\%", "$": "\\$", "#": "\\#", "_": "\\_", "{": "\\{", "}": "\\}",
  "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}", ">": "\\textgreater{}", "±": "$\\pm$",
  "[": "{[}", "]": "{]}", "\n": " ", "\0": "$-$",
};
const tex = (text) => text.replace(/(?<=\d)-(?=\d)/g, "--").replace(/(?<![\p{L}\p{N}_.-])-(?=\d)/gu, "\0")
  .replace(/[\\&%$#_{}~^<>±[\]\n\0]/g, (letter) => TEX[letter]);
const md = (text) => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/\n/g, " ")
  .replace(/([\\`*_{}[\]|#~!])/g, "\\$1");

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

function cellsOf(row) {
  return [...row.cells].map((cell) => cell.textContent);
}

function told(text) {
  const place = document.getElementById("told");
  place.textContent = "";
  requestAnimationFrame(() => { place.textContent = text; });
}

async function copied(text, form) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    area.className = "unseen";
    document.body.append(area);
    const before = document.activeElement;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    before.focus();
    if (!done) { told("This browser does not let a page copy."); return; }
  }
  told(`Copied as ${form}.`);
}

function button(text, act, pressed) {
  const made = document.createElement("button");
  made.type = "button";
  made.textContent = text;
  if (pressed !== undefined) made.setAttribute("aria-pressed", String(pressed));
  made.addEventListener("click", () => act(made));
  return made;
}

// What a table shows now: its heads, which columns are figures, and its rows without those that a filter hides.
function shownTable(table) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies].flatMap((body) => [...body.rows].filter((row) => !row.hidden).map(cellsOf));
  return { heads: cellsOf(table.tHead.rows[0]), right: heads.map((head) => head.classList.contains("right")), rows };
}

function asMarkdown(caption, { heads, right, rows }) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  const rules = right.map((one) => (one ? "---:" : ":---"));
  const lines = [line(heads.map(md)), line(rules), ...rows.map((row) => line(row.map(md)))];
  return `**${md(caption)}**\n\n${lines.join("\n")}\n`;
}

function asLatex(caption, label, { heads, right, rows }) {
  const layout = right.map((one) => (one ? "r" : "l")).join("");
  const lines = rows.map((row) => `    ${row.map(tex).join(" & ")}`).join(" \\\\\n");
  return "% Needs \\usepackage{booktabs}\n\\begin{table}[htbp]\n  \\centering\n"
    + `  \\caption{${tex(caption)}}\n  \\label{tab:${label}}\n  \\begin{tabular}{${layout}}\n    \\toprule\n`
    + `    ${heads.map(tex).join(" & ")} \\\\\n    \\midrule\n${lines} \\\\\n`
    + "    \\bottomrule\n  \\end{tabular}\n\\end{table}\n";
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
  told(way ? `Sorted by ${name}, ${way}.` : "In the first order again.");
}

function transposed(table) {
  const { right } = shownTable(table);
  const body = [...table.tBodies[0].rows].filter((row) => !row.hidden);
  const rows = [table.tHead.rows[0], ...body].map((row) => [...row.cells]);
  const made = document.createElement("table");
  const figures = right.filter(Boolean).length * 2 > right.length;
  rows[0].forEach((_, column) => {
    const line = (column ? made.tBodies[0] || made.createTBody() : made.createTHead()).insertRow();
    rows.forEach((row, place) => {
      const cell = document.createElement(column && place ? "td" : "th");
      if (!column || !place) cell.scope = column ? "row" : "col";
      if (place && (column ? right[column] : figures)) cell.className = "right";
      cell.append(...[...row[column].childNodes].map((node) => node.cloneNode(true)));
      cell.querySelectorAll("button").forEach((one) => one.replaceWith(...one.childNodes));
      line.append(cell);
    });
  });
  return made;
}

function prepareTable(figure) {
  const caption = figure.querySelector("figcaption").textContent;
  const scroll = figure.querySelector(".scroll");
  const table = scroll.querySelector("table");
  if (!table.tHead || !table.tBodies.length) return;
  let shown = table;
  // Rows that belong to the one above them keep their places.
  const heads = "still" in figure.dataset ? [] : [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const made = button("", () => sortBy(table, column));
    made.append(...head.childNodes);
    head.append(made);
  });
  const tools = document.createElement("div");
  tools.className = "tools";
  tools.setAttribute("role", "group");
  tools.setAttribute("aria-label", `Table: ${caption}`);
  tools.append(
    button("Transpose", (pressed) => {
      const next = shown === table ? transposed(table) : table;
      shown.replaceWith(next);
      shown = next;
      pressed.setAttribute("aria-pressed", String(shown !== table));
      told(shown === table ? "Rows are rows again." : "Rows and columns have changed places.");
      reachable(scroll, caption);
    }, false),
    button("Copy as Markdown", () => copied(asMarkdown(caption, shownTable(shown)), "Markdown")),
    button("Copy as LaTeX", () => copied(asLatex(caption, figure.dataset.label || "", shownTable(shown)), "LaTeX")),
  );
  figure.querySelector("figcaption").after(tools);
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
  place.id = "told";
  place.className = "unseen";
  place.setAttribute("role", "status");
  document.body.append(place);
  document.querySelectorAll("figure.sheet").forEach(prepareTable);
}
