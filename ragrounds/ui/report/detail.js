// One attempt: the question, the answer against the gold, and its steps, drawn when they are unfolded.
function fold(title, draw, className) {
  const made = el("details", null, className);
  made.append(el("summary", title));
  made.addEventListener("toggle", () => {
    if (made.open && !made.dataset.drawn) { made.dataset.drawn = "yes"; draw(made); }
  });
  return made;
}

async function showAttempt(attempt) {
  const number = state.cell.chunk[attempt];
  const data = await chunk(number);
  if (state.chosen !== attempt) return;
  const one = data.attempts[state.cell.place[attempt]];
  const text = (value) => typeof value === "number" ? data.texts[-1 - value] : value;
  const pane = byId("detail");
  const head = el("h3", `${one.id}${one.epoch ? `, epoch ${one.epoch}` : ""}`);
  pane.replaceChildren(head, el("p", agentOf(one.run), "dim"), el("pre", text(one.question)));
  const gold = text(one.gold);
  const prediction = state.cell.prediction[attempt];
  const choices = Object.entries(one.options);
  if (choices.length) {
    const list = el("ul");
    for (const [label, option] of choices) {
      const marks = [label === gold ? "gold" : "", label === prediction ? "chosen" : ""].filter(Boolean).join(", ");
      list.append(el("li", `${label}. ${text(option)}${marks ? `  ← ${marks}` : ""}`, label === gold ? "good" : ""));
    }
    pane.append(list);
  } else {
    pane.append(el("h4", "reference"), el("pre", gold, "good"));
  }
  const used = one.usage ? `${tokens(one.usage[0])} tokens in, ${tokens(one.usage[1])} out` : "tokens unknown";
  pane.append(el("p", `${one.status}${one.reason === "" ? "" : `: ${text(one.reason)}`} · ${one.made} calls · ${used} · `
    + `paid ${dollars(one.cost_paid)}, uncached ${dollars(one.cost_uncached)} · ${seconds(one.seconds)}`, "dim"));
  pane.append(scoreTable(one.scores, text), el("h4", "answer"), el("pre", text(one.text) || "(no text)"));
  pane.append(el("h4", "steps"));
  one.steps.forEach((step, place) => pane.append(drawStep(step, place, one, data, text)));
  pane.scrollTop = 0;
}

function agentOf(run) {
  const place = state.about.runs.findIndex(([id]) => id === run);
  return `#${place + 1} ${state.about.runs[place][1]}  (${run})`;
}

function scoreTable(scores, text) {
  const table = el("table");
  for (const [protocol, value, reading, prediction, reason] of scores) {
    const row = el("tr");
    const shown = value === null ? "missing" : value >= 1 ? "right" : value > 0 ? `${(100 * value).toFixed(1)} %` : "wrong";
    row.append(el("th", protocol), el("td", shown, value >= 1 ? "good" : "bad"), el("td", reading),
      el("td", text(prediction)), el("td", text(reason), "dim"));
    table.append(row);
  }
  return table;
}

function drawStep(step, place, one, data, text) {
  const spent = step.calls.reduce((sum, call) => sum + (call.usage ? call.usage[0] + call.usage[1] : 0), 0);
  const title = `${place + 1}. ${step.node || "outside of any node"}  ${seconds(step.seconds)}`
    + `${spent ? `  ${tokens(spent)} tokens` : ""}${step.error === "" ? "" : "  error"}`;
  return fold(title, (into) => {
    if (step.error !== "") into.append(el("pre", text(step.error), "bad"));
    for (const [what, note] of step.notes) into.append(el("p", `${what}: ${text(note)}`, "dim"));
    step.calls.forEach((call) => into.append(drawCall(call, one, data, text)));
    for (const [name, value] of Object.entries(step.changes)) {
      into.append(fold(`→ ${name}`, (inside) => inside.append(el("pre", text(value)))));
    }
  }, "step");
}

function drawCall(call, one, data, text) {
  const used = call.usage ? `  ${tokens(call.usage[0])} in, ${tokens(call.usage[1])} out` : "";
  const box = fold(`${call.kind} (${call.role})  ${text(call.actor)}  ${seconds(call.seconds)}${used}`
    + `${call.cached ? "  from the journal" : ""}`, (into) => {
    for (const [kind, message, status] of call.faults || []) {
      into.append(el("p", `tried: ${kind}${status ? ` ${status}` : ""}: ${text(message)}`, "bad"));
    }
    if (call.error !== undefined) into.append(el("pre", text(call.error), "bad"));
    if (call.model !== undefined) into.append(el("p", `answered by ${text(call.model)}`, "dim"));
    if (call.query !== undefined) into.append(el("h4", "query"), el("pre", text(call.query)));
    for (const [number, rank, score, retriever] of call.found || []) {
      const [, id, document, title, body, corpus] = data.passages[number];
      const gold = one.documents.includes(document) || one.documents.includes(id);
      into.append(fold(`${gold ? "★ " : ""}${rank}. ${text(title) || id}  ${score}`, (inside) => {
        inside.append(el("p", `${id} · ${corpus} · ${retriever}${gold ? " · gold" : ""}`, "dim"), el("pre", text(body)));
      }, gold ? "good" : ""));
    }
    for (const [role, content] of call.messages || []) into.append(el("h4", role), el("pre", text(content)));
    if (call.reasoning !== undefined) into.append(el("h4", "reasoning"), el("pre", text(call.reasoning)));
    if (call.reply !== undefined) into.append(el("h4", `reply (${call.finish})`), el("pre", text(call.reply)));
  }, "call");
  return box;
}
