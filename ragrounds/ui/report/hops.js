// The searches of attempts from left to right: what each asked, at which ranks it found gold, what became of that.
const FATES = { seen: "seen by the model", cut: "only its beginning seen", "not seen": "in no prompt",
  "not known": "not known whether seen" };
const RANKS = 32;  // ranks that a strip shows

function hopTable(attempts) {
  const most = Math.max(...attempts.map(({ one }) => one.hops.length));
  const table = el("table", null, "timeline");
  const head = table.createTHead().insertRow();
  for (const name of ["agent", ...Array.from({ length: most }, (_, n) => `search ${n + 1}`)]) {
    const cell = el("th", name);
    cell.scope = "col";
    head.append(cell);
  }
  const body = table.createTBody();
  for (const { attempt, one } of attempts) {
    const row = body.insertRow();
    const name = el("th", state.about.runs[state.cell.run[attempt]][1], attempt === state.chosen ? "chosen" : "");
    name.scope = "row";
    row.append(name);
    for (let n = 0; n < most; n += 1) {
      const cell = row.insertCell();
      if (one.hops[n]) drawHop(cell, one.hops[n], one);
      else if (!n) cell.append(el("span", one.no_hops, "dim"));
    }
  }
  const scroll = el("div", null, "scroll");
  scroll.append(table);
  return scroll;
}

function drawHop(cell, [query, found, fresh, repeats, error, gold], one) {
  cell.append(el("div", one.text(query) || "(query not recorded)", "asked"));
  if (error !== "") { cell.append(el("div", `failed: ${one.text(error)}`, "bad")); return; }
  const ranks = new Map(gold);
  const strip = el("div", null, "ranks");
  strip.setAttribute("aria-hidden", "true");
  for (let rank = 1; rank <= Math.min(found, RANKS); rank += 1) {
    const fate = ranks.get(rank);
    strip.append(el("i", fate === undefined ? "" : "★", fate === undefined ? "" : fate === "seen" ? "good" : "warn"));
  }
  if (found) cell.append(strip);
  const known = one.documents.length > 0;
  const said = [`${found} found, ${fresh} new`];
  if (repeats !== null) said.unshift(`↻ as search ${repeats}`);
  if (gold.length) said.push(gold.slice(0, 3).map(([rank, fate]) => `gold at ${rank}, ${FATES[fate]}`).join("; "));
  else if (known) said.push("no gold");
  cell.append(el("div", said.join(" · "), "dim"));
}
