// The list of attempts: filtered, sorted, and drawn only where it is looked at.
const state = { about: null, index: null, cell: {}, order: [], chosen: -1, height: 44, texts: [], found: null,
  search: 0, short: [] };

function drawRows() {
  const list = byId("list");
  const { height } = state;
  const first = Math.max(0, Math.floor(list.scrollTop / height) - 5);
  const last = Math.min(state.order.length, Math.ceil((list.scrollTop + list.clientHeight) / height) + 5);
  const rows = byId("rows");
  rows.style.transform = `translateY(${first * height}px)`;
  rows.replaceChildren(...state.order.slice(first, last).map((attempt, place) => drawRow(attempt, first + place)));
  if (rows.querySelector(`#row-${state.chosen}`)) list.setAttribute("aria-activedescendant", `row-${state.chosen}`);
  else list.removeAttribute("aria-activedescendant");
}

function markOf(attempt) {
  const score = state.cell.score[attempt];
  const reason = state.index.signs[state.cell.outcome[attempt]];
  if (reason && !(score >= 1)) return [reason, "bad", outcomeOf(attempt).replace("_", " ")];
  return score === null ? ["-", "dim", "no score"] : score >= 1 ? ["✓", "good", "right"]
    : score > 0 ? ["½", "bad", "partly right"] : ["✗", "bad", "wrong"];
}

function drawRow(attempt, place) {
  const get = (name) => state.cell[name][attempt];
  const question = questionOf(attempt);
  const outcome = outcomeOf(attempt);
  const [sign, style, said] = markOf(attempt);
  const row = el("div", null, "row");
  row.id = `row-${attempt}`;
  row.setAttribute("role", "option");
  row.setAttribute("aria-selected", String(attempt === state.chosen));
  row.setAttribute("aria-setsize", state.order.length);
  row.setAttribute("aria-posinset", place + 1);
  row.dataset.attempt = attempt;
  const epoch = get("epoch") ? ` (epoch ${get("epoch")})` : "";
  const several = state.about.runs.length > 1;
  const read = get("prediction") ? `${get("prediction")} ` : "";
  const ended = outcome === "answered" ? "" : `${outcome.replace("_", " ")} `;
  const used = figure("tokens", attempt) === null ? "" : `${tokens(figure("tokens", attempt))} tok`;
  const close = el("span", null, "used");
  close.append(el("span", ended + read, "read"), el("b", used));
  const mark = el("span", sign, style);
  mark.setAttribute("aria-hidden", "true");
  row.append(mark, el("span", `${said}, `, "unseen"), el("span", question[0] + epoch, "name"),
    el("span", several ? state.short[get("run")] : "", "agent"), close, el("span", question[3], "what"));
  const signs = get("signs") ? get("signs").split(" ") : [];
  if (signs.length) {
    const hops = el("span", null, "hops");
    hops.setAttribute("aria-hidden", "true");
    hops.append(...signs.map((one) => el("b", one, `hop ${hopStyle(one)}`)));
    const count = `${signs.length} ${signs.length === 1 ? "search" : "searches"}`;
    row.append(hops, el("span", `, ${count}${signs.some((one) => one.includes("★")) ? ", gold found" : ""}`, "unseen"));
  }
  return row;
}

// Names without what all of them begin with, so that a row that is too short for a name still tells them apart.
function shortNames(names) {
  let same = 0;
  while (names.length > 1 && names.every((name) => name[same] !== undefined && name[same] === names[0][same])) same += 1;
  const cut = Math.max(...["[", ",", " "].map((sign) => names[0].lastIndexOf(sign, same - 1))) + 1;
  return same > 12 && cut > 0 ? names.map((name) => `…${name.slice(cut)}`) : names;
}

const hopStyle = (sign) => sign.includes("!") ? "fault" : sign.includes("●") ? "seen" : sign.includes("★") ? "unseen" : "none";

// An attempt with its texts.
async function whole(attempt) {
  const data = await chunk(state.cell.chunk[attempt]);
  const text = (value) => typeof value === "number" ? data.texts[-1 - value] : value;
  return { ...data.attempts[state.cell.place[attempt]], data, text };
}

// The condition of the line, and the words in it that are looked for as text.
function readLine() {
  const words = [];
  const line = byId("search");
  const holds = (text) => {
    const low = text.toLowerCase();
    words.push(low);
    return (a) => state.found?.get(low)?.has(a) || [questionOf(a)[0], questionOf(a)[3], state.cell.prediction[a]]
      .some((one) => one.toLowerCase().includes(low));
  };
  try {
    const condition = parseFilter(line.value, holds);
    line.removeAttribute("aria-invalid");
    byId("problem").textContent = words.length ? visible(`Text: ${words.join(", ")}.`) : "";
    return { condition, words };
  } catch (error) {
    if (!(error instanceof FilterError)) throw error;
    line.setAttribute("aria-invalid", "true");
    byId("problem").textContent = visible(error.message);
    return null;
  }
}

function selected() {
  const is = (id, read) => {
    const wanted = byId(id).value;
    return wanted === "" ? null : (a) => String(read(a)) === wanted;
  };
  const score = byId("f-score").value;
  return [
    is("f-run", (a) => state.cell.run[a]), is("f-dataset", (a) => questionOf(a)[1]),
    is("f-subject", (a) => questionOf(a)[2]), is("f-outcome", (a) => state.cell.outcome[a]),
    score === "" ? null : (a) => {
      const value = state.cell.score[a];
      return score === "missing" ? value === null : value !== null && (value >= 1) === (score === "right");
    },
    byId("f-differ").checked ? FLAGS.differ : null,
  ].filter((test) => test !== null);
}

async function refresh() {
  const turn = ++state.search;
  const line = readLine();
  if (line === null) return;
  state.found = null;
  if (byId("deep").checked && line.words.length) {
    const found = await searched(line.words, turn);
    if (found === null) return;
    state.found = found;
  }
  const all = state.cell.question.map((_, attempt) => attempt);
  const tests = [line.condition, ...selected()];
  state.order = all.filter((attempt) => tests.every((test) => test(attempt)));
  const by = byId("sort").value;
  const turned = by === "gold_rank" ? 1 : -1;  // the best rank is the lowest
  if (by) {
    const value = (a) => figure(by, a) ?? (turned > 0 ? Infinity : -1);
    state.order.sort((a, b) => (value(a) === value(b) ? a - b : turned * (value(a) - value(b))));
  }
  byId("space").style.height = `${state.order.length * state.height}px`;
  byId("count").textContent = state.order.length ? `${state.order.length.toLocaleString("en")} of `
    + `${all.length.toLocaleString("en")}` : `0 of ${all.length.toLocaleString("en")}: no attempt fits`;
  byId("list").setAttribute("aria-label", `Attempts, ${state.order.length}`);
  drawRows();
}

// Word → the attempts that hold it anywhere; null: another search has begun.
async function searched(words, turn) {
  const found = new Map(words.map((word) => [word, new Set()]));
  const inChunk = new Map();
  state.cell.chunk.forEach((number, attempt) => {
    if (!inChunk.has(number)) inChunk.set(number, []);
    inChunk.get(number).push(attempt);
  });
  for (let number = 0; number < state.about.chunks; number += 1) {
    byId("progress").textContent = `searching ${number + 1} of ${state.about.chunks}…`;
    const data = await unpack(`chunk-${number}`);
    if (turn !== state.search) return null;
    for (const word of words) {
      const hits = data.texts.map((text) => text.toLowerCase().includes(word));
      const passages = new Set(data.passages.filter((p) => holds(p, word, hits)).map((p) => p[0]));
      for (const attempt of inChunk.get(number) || []) {
        if (holds(data.attempts[state.cell.place[attempt]], word, hits, passages)) found.get(word).add(attempt);
      }
    }
  }
  byId("progress").textContent = "";
  return found;
}

// Whether a value holds a word; a whole number below 0 stands for a text of the chunk's table.
function holds(value, word, hits, passages, key) {
  if (typeof value === "string") return value.toLowerCase().includes(word);
  if (Array.isArray(value)) {
    if (key === "found") return value.some((one) => passages && passages.has(one[0]));
    return value.some((one) => holds(one, word, hits, passages));
  }
  if (value !== null && typeof value === "object") {
    return Object.entries(value).some(([name, one]) => holds(one, word, hits, passages, name));
  }
  return Number.isInteger(value) && value < 0 && hits[-1 - value] === true;
}

function move(step) {
  const at = state.order.indexOf(state.chosen);
  const next = state.order[at < 0 ? 0 : Math.min(state.order.length - 1, Math.max(0, at + step))];
  if (next !== undefined) choose(next);
}

function choose(attempt) {
  state.chosen = attempt;
  const list = byId("list");
  const top = state.order.indexOf(attempt) * state.height;
  if (top >= 0 && top < list.scrollTop) list.scrollTop = top;
  if (top + state.height > list.scrollTop + list.clientHeight) list.scrollTop = top + state.height - list.clientHeight;
  drawRows();
  history.replaceState(null, "", linkTo(attempt));
  return showAttempt(attempt);
}

// The address of an attempt in this page: #a=RUN/QUESTION, with the epoch where it is not the first.
function linkTo(attempt) {
  const epoch = state.cell.epoch[attempt];
  const parts = [state.about.runs[state.cell.run[attempt]][0], questionOf(attempt)[0], ...(epoch ? [epoch] : [])];
  return `#a=${parts.map(encodeURIComponent).join("/")}`;
}

function openLinked() {
  if (!location.hash.startsWith("#a=")) return;
  let parts;
  try { parts = location.hash.slice(3).split("/").map(decodeURIComponent); } catch { parts = []; }
  const [run, question, epoch = "0"] = parts;
  const attempt = state.cell.question.findIndex((_, a) => state.about.runs[state.cell.run[a]][0] === run
    && questionOf(a)[0] === question && String(state.cell.epoch[a]) === epoch);
  byId("attempts").scrollIntoView();
  if (attempt < 0) {
    byId("problem").textContent = visible(`This page has no attempt ${parts.slice(0, 2).join(" at ")}.`);
  } else if (attempt !== state.chosen) {
    choose(attempt);
  }
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
  state.cell = { question: [], chunk: [], signs: [], ...index.columns };
  if (state.cell.signs.some(Boolean)) { state.height = 66; byId("list").classList.add("with-hops"); }
  state.short = shortNames(about.runs.map(([, agent]) => agent));
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
  for (const option of byId("sort").options) {
    option.hidden = option.value !== "" && !state.cell.question.some((_, a) => figure(option.value, a));
  }
}

async function startAttempts() {
  state.about = await unpack("about");
  state.index = await unpack("index");
  prepare();
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const id of ["f-run", "f-dataset", "f-subject", "f-outcome", "f-score", "f-differ", "sort", "deep"]) {
    byId(id).addEventListener("change", refresh);
  }
  let waiting = 0;
  byId("search").addEventListener("input", () => {
    clearTimeout(waiting);
    if (!byId("deep").checked) waiting = setTimeout(refresh, state.order.length > 3000 ? 150 : 0);
  });
  byId("search").addEventListener("change", refresh);
  const list = byId("list");
  list.addEventListener("scroll", drawRows, { passive: true });
  window.addEventListener("resize", drawRows);
  window.addEventListener("hashchange", openLinked);
  const open = (row) => { if (row) choose(Number(row.dataset.attempt)).then(() => shownBelow()); };
  let pressed = null;  // a typed line is read when it is left: rows drawn anew between press and release get no click
  list.addEventListener("mousedown", (event) => { pressed = event.target.closest(".row"); });
  list.addEventListener("mouseup", () => { if (!pressed?.isConnected) open(pressed); });
  list.addEventListener("click", (event) => open(event.target.closest(".row")));
  list.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(list.clientHeight / state.height) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) { event.preventDefault(); move(steps[event.key]); }
    if (event.key === "Enter" && state.chosen >= 0) { event.preventDefault(); byId("title").focus(); }
  });
  byId("attempts").addEventListener("keydown", (event) => {
    if (event.key === "/" && !/^(INPUT|SELECT)$/.test(document.activeElement.tagName)) {
      event.preventDefault();
      byId("search").focus();
    }
    if (event.key === "Escape" && byId("detail").contains(document.activeElement)) list.focus();
  });
  await refresh();
  openLinked();
  document.documentElement.dataset.ready = performance.now().toFixed(1);
}

// Where the detail stands below the list, it is brought to view.
function shownBelow() {
  const detail = byId("detail");
  if (detail.offsetTop > byId("list").offsetTop + 50) detail.scrollIntoView({ block: "start" });
}
