// The list of attempts: filtered, sorted, and drawn only where it is looked at.
const HEIGHT = 44;
const COLUMNS = ["question", "run", "epoch", "outcome", "score", "prediction", "cost", "tokens", "steps", "seconds",
  "chunk", "place"];
const state = { about: null, index: null, cell: {}, order: [], chosen: -1, found: null, search: 0 };

function drawRows() {
  const list = byId("list");
  const first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - 5);
  const last = Math.min(state.order.length, Math.ceil((list.scrollTop + list.clientHeight) / HEIGHT) + 5);
  const rows = byId("rows");
  rows.style.transform = `translateY(${first * HEIGHT}px)`;
  rows.replaceChildren(...state.order.slice(first, last).map(drawRow));
}

function drawRow(attempt) {
  const get = (name) => state.cell[name][attempt];
  const question = state.index.questions[get("question")];
  const score = get("score");
  const outcome = state.index.outcomes[get("outcome")];
  const row = el("div", null, "row");
  row.setAttribute("role", "option");
  row.setAttribute("aria-selected", String(attempt === state.chosen));
  row.dataset.attempt = attempt;
  const good = score !== null && score >= 1;
  row.append(el("span", score === null ? "?" : good ? "✓" : score > 0 ? "~" : "✗", good ? "good" : "bad"));
  const epoch = get("epoch") ? ` (epoch ${get("epoch")})` : "";
  row.append(el("span", `${question[0]}${epoch}  #${get("run") + 1}`));
  const read = get("prediction") ? `${get("prediction")} ` : "";
  const ended = outcome === "answered" ? "" : `${outcome.replace("_", " ")} `;
  const used = get("tokens") === null ? "" : `${tokens(get("tokens"))} tok`;
  row.append(el("span", `${ended}${read}${used}`, "dim"));
  row.append(el("span", question[3], "what"));
  return row;
}

function matcher() {
  const is = (id, read) => {
    const wanted = byId(id).value;
    return wanted === "" ? null : (attempt) => String(read(attempt)) === wanted;
  };
  const score = byId("f-score").value;
  const words = byId("search").value.trim().toLowerCase();
  const question = (attempt) => state.index.questions[state.cell.question[attempt]];
  const tests = [
    is("f-run", (a) => state.cell.run[a]), is("f-dataset", (a) => question(a)[1]), is("f-subject", (a) => question(a)[2]),
    is("f-outcome", (a) => state.cell.outcome[a]),
    score === "" ? null : (a) => {
      const value = state.cell.score[a];
      return score === "missing" ? value === null : value !== null && (value >= 1) === (score === "right");
    },
    byId("f-differ").checked ? (a) => state.differ.has(state.cell.question[a]) : null,
    words === "" ? null : (a) => state.found !== null ? state.found.has(a)
      : question(a)[0].toLowerCase().includes(words) || question(a)[3].toLowerCase().includes(words)
        || state.cell.prediction[a].toLowerCase().includes(words),
  ].filter((test) => test !== null);
  return (attempt) => tests.every((test) => test(attempt));
}

function refresh() {
  const all = state.cell.question.map((_, attempt) => attempt);
  state.order = all.filter(matcher());
  const by = byId("sort").value;
  if (by) state.order.sort((a, b) => (state.cell[by][b] ?? -1) - (state.cell[by][a] ?? -1) || a - b);
  byId("space").style.height = `${state.order.length * HEIGHT}px`;
  byId("count").textContent = `${state.order.length.toLocaleString("en")} of ${all.length.toLocaleString("en")}`;
  drawRows();
}

async function search() {
  const words = byId("search").value.trim().toLowerCase();
  const turn = ++state.search;
  state.found = null;
  if (byId("deep").checked && words !== "") {
    const found = new Set();
    const inPiece = new Map();
    state.cell.chunk.forEach((number, attempt) => {
      if (!inPiece.has(number)) inPiece.set(number, []);
      inPiece.get(number).push(attempt);
    });
    for (let number = 0; number < state.about.chunks; number += 1) {
      byId("count").textContent = `searching ${number + 1} of ${state.about.chunks}…`;
      const data = await unpack(`chunk-${number}`);
      if (turn !== state.search) return;
      const hits = data.texts.map((text) => text.toLowerCase().includes(words));
      const passages = new Set(data.passages.filter((p) => holds(p, words, hits)).map((p) => p[0]));
      for (const attempt of inPiece.get(number) || []) {
        if (holds(data.attempts[state.cell.place[attempt]], words, hits, passages)) found.add(attempt);
      }
    }
    state.found = found;
  }
  refresh();
}

// Whether a value holds the words; a whole number below 0 stands for a text of the chunk's table.
function holds(value, words, hits, passages, key) {
  if (typeof value === "string") return value.toLowerCase().includes(words);
  if (Array.isArray(value)) {
    if (key === "found") return value.some((one) => passages && passages.has(one[0]));
    return value.some((one) => holds(one, words, hits, passages));
  }
  if (value !== null && typeof value === "object") {
    return Object.entries(value).some(([name, one]) => holds(one, words, hits, passages, name));
  }
  return Number.isInteger(value) && value < 0 && hits[-1 - value] === true;
}

function move(step) {
  const at = state.order.indexOf(state.chosen);
  const next = state.order[Math.min(state.order.length - 1, Math.max(0, at + step))];
  if (next === undefined) return;
  const list = byId("list");
  const top = state.order.indexOf(next) * HEIGHT;
  if (top < list.scrollTop) list.scrollTop = top;
  if (top + HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = top + HEIGHT - list.clientHeight;
  choose(next);
}

function choose(attempt) {
  state.chosen = attempt;
  drawRows();
  return showAttempt(attempt);
}

function options(id, values) {
  for (const [value, name] of values) {
    const option = el("option", name);
    option.value = value;
    byId(id).append(option);
  }
  byId(id).closest("label").hidden = values.length < 2;
}

function prepare() {
  const { index, about } = state;
  COLUMNS.forEach((name, place) => { state.cell[name] = index.columns[place] || []; });
  const seen = (place) => [...new Set(index.questions.map((question) => question[place]))].filter(Boolean).sort();
  options("f-run", about.runs.map(([, agent], number) => [number, `#${number + 1} ${agent}`]));
  options("f-dataset", seen(1).map((name) => [name, name]));
  options("f-subject", seen(2).map((name) => [name, name]));
  options("f-outcome", [...new Set(state.cell.outcome)].sort().map((n) => [n, index.outcomes[n].replace("_", " ")]));
  const scores = new Map();
  state.differ = new Set();
  state.cell.question.forEach((question, attempt) => {
    const score = state.cell.score[attempt];
    if (!scores.has(question)) scores.set(question, score);
    else if (scores.get(question) !== score) state.differ.add(question);
  });
  byId("f-differ").closest("label").hidden = about.runs.length < 2;
}

async function startAttempts() {
  state.about = await unpack("about");
  state.index = await unpack("index");
  prepare();
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["f-run", "f-dataset", "f-subject", "f-outcome", "f-score", "f-differ", "sort"]) {
    byId(id).addEventListener("change", refresh);
  }
  byId("search").addEventListener("input", () => { if (!byId("deep").checked) search(); });
  byId("search").addEventListener("change", search);
  byId("deep").addEventListener("change", search);
  const list = byId("list");
  list.addEventListener("scroll", drawRows, { passive: true });
  window.addEventListener("resize", drawRows);
  list.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row) choose(Number(row.dataset.attempt));
  });
  list.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity };
    if (event.key in steps) { event.preventDefault(); move(steps[event.key]); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      byId("search").focus();
    }
  });
  refresh();
  document.documentElement.dataset.ready = performance.now().toFixed(1);
}
