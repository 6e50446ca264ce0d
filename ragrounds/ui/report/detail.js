// One attempt: the question once, every agent's answer to it side by side, their searches, and the steps of the chosen.
function fold(title, draw, className) {
  const made = el("details", null, className);
  made.append(el("summary", title));
  made.addEventListener("toggle", () => {
    if (made.open && !made.dataset.drawn) { made.dataset.drawn = "yes"; draw(made); scrollable(made); }
  });
  return made;
}

async function showAttempt(attempt) {
  const { question, epoch } = state.cell;
  const beside = question.map((_, a) => a).filter((a) => question[a] === question[attempt] && epoch[a] === epoch[attempt]);
  const all = [];
  for (const a of beside) all.push({ attempt: a, one: await whole(a) });
  if (state.chosen !== attempt) return;
  const { one } = all.find((each) => each.attempt === attempt);
  const pane = byId("detail");
  pane.replaceChildren(drawTitle(attempt, one));
  if (one.text(one.question)) pane.append(el("pre", one.text(one.question)));
  pane.append(drawGold(one, all));
  if (all.length > 1) {
    pane.append(el("h4", `Answers of ${all.length} agents`));
    const cards = el("div", null, "cards");
    cards.append(...all.map(drawCard));
    pane.append(cards);
  }
  if (all.some((each) => each.one.hops.length)) pane.append(el("h4", "Searches"), hopTable(all));
  pane.append(el("h4", all.length > 1 ? `${agentOf(attempt)}: in detail` : "In detail"), drawFigures(attempt, one));
  if (one.cause !== "") pane.append(el("p", one.text(one.cause)));
  pane.append(scoreTable(one.scores, one.text));
  if (all.length === 1) {
    pane.append(el("h5", "Answer"));
    if (one.not_read) pane.append(el("p", one.not_read, "dim"));
    pane.append(drawReply(one.text(one.text_of)));
  }
  if (one.steps.length) pane.append(el("h5", "Steps"));
  one.steps.forEach((step, place) => pane.append(drawStep(step, place, one)));
  pane.scrollTop = 0;
  scrollable(pane);
}

const agentOf = (attempt) => state.about.runs[state.cell.run[attempt]][1];

function drawTitle(attempt, one) {
  const made = el("div", null, "title");
  const head = el("h3");
  head.id = "title";
  head.tabIndex = -1;
  const link = el("a", `${one.id}${one.epoch ? `, epoch ${one.epoch}` : ""}`);
  link.href = linkTo(attempt);
  link.title = "The address of this attempt in this page";
  head.append(link);
  const at = state.order.indexOf(attempt);
  const step = (text, by, name) => {
    const made = button(text, () => { move(by); byId("title")?.focus(); });
    made.setAttribute("aria-label", name);
    made.disabled = at < 0 || state.order[at + by] === undefined;
    return made;
  };
  made.append(head, step("↑", -1, "The attempt before"), step("↓", 1, "The next attempt"),
    button("List", () => { byId("list").focus(); byId("list").scrollIntoView({ block: "nearest" }); }));
  return made;
}

// The options with gold and who chose which; or the reference.
function drawGold(one, all) {
  const gold = one.text(one.gold);
  const choices = Object.entries(one.options);
  if (!choices.length) {
    const made = el("div");
    if (gold) made.append(el("h4", "Reference"), el("pre", gold));
    return made;
  }
  const list = el("ul", null, "options");
  for (const [label, option] of choices) {
    const chosen = all.filter((each) => state.cell.prediction[each.attempt] === label).map((each) => agentOf(each.attempt));
    const marks = [label === gold ? "gold" : "", chosen.length ? `chosen${all.length > 1 ? ` by ${chosen.join(", ")}` : ""}` : ""];
    const said = marks.filter(Boolean).join(", ");
    list.append(el("li", `${label}. ${one.text(option)}${said ? `  ← ${said}` : ""}`, label === gold ? "good" : ""));
  }
  return list;
}

function drawCard({ attempt, one }) {
  const chosen = attempt === state.chosen;
  const [sign, style, said] = markOf(attempt);
  const card = el("section", null, chosen ? "card chosen" : "card");
  const head = el("h5");
  const mark = el("span", sign, style);
  mark.setAttribute("role", "img");
  mark.setAttribute("aria-label", said);
  head.append(mark, " ");
  if (chosen) {
    head.append(el("span", agentOf(attempt)));
  } else {
    const link = el("a", agentOf(attempt));
    link.href = linkTo(attempt);
    head.append(link);
  }
  const outcome = outcomeOf(attempt).replace("_", " ");
  const read = state.cell.prediction[attempt];
  const used = [read ? `${outcome}, read as ${read}` : outcome];
  if (figure("tokens", attempt) !== null) used.push(`${tokens(figure("tokens", attempt))} tokens`);
  if (one.hops.length) used.push(`${one.hops.length} ${one.hops.length === 1 ? "search" : "searches"}`);
  used.push(dollars(one.cost_uncached) === "unknown" ? "cost unknown" : dollars(one.cost_uncached));
  card.append(head, el("p", [...used, one.not_read].filter(Boolean).join(" · "), "dim"), drawReply(one.text(one.text_of)));
  return card;
}

// A reply: of a JSON object its names and values, and as it was written a click away; any other text as it is.
function drawReply(reply) {
  let value = null;
  try { value = JSON.parse(reply.replace(/^\s*```(?:json)?\s*\n([^]*)\n\s*```\s*$/, "$1")); } catch { /* no JSON */ }
  const parts = value && !Array.isArray(value) && typeof value === "object" ? Object.entries(value) : [];
  if (!parts.length) return drawProse(reply || "(no text)");
  const made = el("div");
  for (const [name, part] of parts) {
    const long = typeof part === "string" && (part.length > 60 || part.includes("\n"));
    const label = name.replaceAll("_", " ");
    if (long) made.append(el("h6", `${label[0]?.toUpperCase() ?? ""}${label.slice(1)}`), drawProse(part));
    else made.append(el("pre", `${label}: ${typeof part === "string" ? part : JSON.stringify(part, null, 2)}`));
  }
  made.append(fold("As it was written", (into) => into.append(el("pre", reply))));
  return made;
}

// Prose as Markdown, by elements and text alone: headings, tables, code, stress; all else as it was written.
function drawProse(text) {
  const made = el("div", null, "prose");
  let open = null;  // the block that the next line of its kind joins
  let fenced = false;
  const block = (tag) => {
    if (open?.localName !== tag) { open = el(tag); made.append(open); }
    return open;
  };
  for (const line of text.split("\n")) {
    const heading = /^ {0,3}#{1,6}\s+(.*)$/.exec(line);
    const row = /^\s*\|(.+)\|\s*$/.exec(line);
    const fence = /^\s*```(.*)$/.exec(line);
    if (fence) {
      fenced = !fenced;
      open = null;
      if (fence[1].trim()) block(fenced ? "pre" : "p").append(visible(`${fence[1].trim()}\n`));
    } else if (fenced) {
      block("pre").append(visible(`${line}\n`));
    } else if (heading || !line.trim()) {
      open = null;
      if (heading) stress(block("h6"), heading[1]);
    } else if (!row) {
      stress(block("p"), `${line}\n`);
    } else if (/[^\s|:-]/.test(row[1])) {
      const cells = block("table").insertRow();
      row[1].split("|").forEach((cell) => stress(cells.insertCell(), cell.trim()));
    }
  }
  return made;
}

function stress(into, text) {
  for (const part of text.split(/(\*\*[^*\n]+\*\*|(?<![\w*])\*(?![\s*])[^*\n]+(?<!\s)\*(?![\w*])|`[^`\n]+`)/)) {
    const found = /^(\*\*|\*|`)([^]+)\1$/.exec(part);
    into.append(found ? el({ "`": "code", "**": "strong", "*": "em" }[found[1]], found[2]) : visible(part));
  }
}

function drawFigures(attempt, one) {
  const used = one.usage ? `${tokens(one.usage[0])} tokens in, ${tokens(one.usage[1])} out` : "tokens unknown";
  return el("p", `${one.status}${one.reason === "" ? "" : `: ${one.text(one.reason)}`} · ${one.made} · ${used} · `
    + `paid ${dollars(one.cost_paid)}, full price ${dollars(one.cost_uncached)} · ${seconds(one.seconds)} · run ${one.run}`,
  "dim");
}

function scoreTable(scores, text) {
  const table = el("table");
  for (const [scorer, value, reading, prediction, reason] of scores) {
    const row = el("tr");
    const shown = value === null ? "missing" : value >= 1 ? "right" : value > 0 ? `${(100 * value).toFixed(1)} %` : "wrong";
    const name = el("th", scorer);
    name.scope = "row";
    row.append(name, el("td", shown, value >= 1 ? "good" : "bad"), el("td", reading),
      el("td", text(prediction)), el("td", text(reason), "dim"));
    table.append(row);
  }
  const scroll = el("div", null, "scroll");
  scroll.append(table);
  return scroll;
}

function drawStep(step, place, one) {
  const spent = step.calls.reduce((sum, call) => sum + (call.usage ? call.usage[0] + call.usage[1] : 0), 0);
  const title = `${place + 1}. ${step.node || "outside of any node"}  ${seconds(step.seconds)}`
    + `${spent ? `  ${tokens(spent)} tokens` : ""}${step.error === "" ? "" : "  error"}`;
  return fold(title, (into) => {
    if (step.error !== "") into.append(el("pre", one.text(step.error), "bad"));
    for (const [what, note] of step.notes) into.append(el("p", `${what}: ${one.text(note)}`, "dim"));
    step.calls.forEach((call) => into.append(drawCall(call, one)));
    for (const [name, value] of Object.entries(step.changes)) {
      into.append(fold(`→ ${name}`, (inside) => inside.append(el("pre", one.text(value)))));
    }
  }, "step");
}

function drawCall(call, one) {
  const { text, data } = one;
  const used = call.usage ? `  ${tokens(call.usage[0])} in, ${tokens(call.usage[1])} out` : "";
  return fold(`${call.kind} (${call.role})  ${text(call.actor)}  ${seconds(call.seconds)}${used}`
    + `${call.cached ? "  from the journal" : ""}`, (into) => {
    for (const [kind, message, status] of call.faults || []) {
      into.append(el("p", `tried: ${kind}${status ? ` ${status}` : ""}: ${text(message)}`, "bad"));
    }
    if (call.error !== undefined) into.append(el("pre", text(call.error), "bad"));
    if (call.model !== undefined) into.append(el("p", `answered by ${text(call.model)}`, "dim"));
    if (call.query !== undefined) into.append(el("h5", "query"), el("pre", text(call.query)));
    for (const [number, rank, score, retriever] of call.found || []) {
      const [, id, document, title, body, corpus] = data.passages[number];
      const gold = one.documents.includes(document) || one.documents.includes(id);
      into.append(fold(`${gold ? "★ " : ""}${rank}. ${text(title) || id}  ${score}`, (inside) => {
        inside.append(el("p", `${id} · ${corpus} · ${retriever}${gold ? " · gold" : ""}`, "dim"), el("pre", text(body)));
      }, gold ? "gold" : ""));
    }
    for (const [role, content] of call.messages || []) into.append(el("h5", role), el("pre", text(content)));
    if (call.reasoning !== undefined) {
      const reasoning = text(call.reasoning);
      const title = `reasoning, ${reasoning.length.toLocaleString("en")} characters`;
      into.append(fold(title, (inside) => inside.append(drawProse(reasoning))));
    }
    if (call.reply !== undefined) into.append(el("h5", `reply (${call.finish})`), drawReply(text(call.reply)));
  }, "call");
}

// What scrolls can be reached by keys, under the name of the heading above it.
function scrollable(within) {
  within.querySelectorAll("pre,.scroll,.prose").forEach((one) => {
    const scrolls = one.scrollHeight > one.clientHeight + 1 || one.scrollWidth > one.clientWidth + 1;
    if (!scrolls || one.tabIndex >= 0) return;
    one.tabIndex = 0;
    one.setAttribute("role", "group");
    one.setAttribute("aria-label", one.closest(".card")?.querySelector("h5").textContent.trim() || "Text that scrolls");
  });
}
