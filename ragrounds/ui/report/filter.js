// The language of `ragrounds trace --where`, as far as the page's index can answer it: wrong and hops>3 and gold not seen.
const FLAGS = {
  right: (a) => figure("score", a) >= 1 && known("score", a), wrong: (a) => known("score", a) && figure("score", a) < 1,
  partly: (a) => figure("score", a) > 0 && figure("score", a) < 1, scored: (a) => known("score", a),
  unscored: (a) => !known("score", a), made: () => true, differ: (a) => state.differ.has(state.cell.question[a]),
  troubled: (a) => ["failed", "capped", "blocked", "paused", "empty"].includes(outcomeOf(a)),
};
const SIZES = {
  dollars: { "": 1, $: 1 }, seconds: { "": 1, s: 1, ms: 0.001, m: 60, min: 60, h: 3600 },
  tokens: { "": 1, k: 1e3, m: 1e6 }, share: { "": 1, "%": 0.01 }, count: { "": 1 },
};
const FIGURES = { score: "share", cost: "dollars", paid: "dollars", time: "seconds", tokens: "tokens", input: "tokens",
  output: "tokens" };
const COUNTS = ["model_calls", "searches", "tool_calls", "unrecorded", "unanswered", "steps", "hops", "repeated", "failed_calls", "failed_searches",
  "faults", "gold_known", "gold_found", "gold_seen", "gold_cut", "gold_missed", "gold_unseen", "gold_rank", "gold_hop",
  "epoch"];
COUNTS.forEach((name) => { FIGURES[name] = "count"; });
const COUNTED = ["model_calls", "searches", "tool_calls", "unrecorded", "unanswered", "hops", "repeated", "failed_calls", "failed_searches", "faults"];
const ALIASES = { outcome: "status", errors: "troubled", correct: "right", incorrect: "wrong" };
const NAMES = {
  status: (a) => [outcomeOf(a)], agent: (a) => [state.about.runs[state.cell.run[a]][1]],
  run: (a) => [state.about.runs[state.cell.run[a]][0]], benchmark: (a) => [questionOf(a)[1]],
  subject: (a) => [questionOf(a)[2]],
};
const GOLD = { found: "gold_found", seen: "gold_seen", cut: "gold_cut", known: "gold_known", rank: "gold_rank",
  hop: "gold_hop" };
const ELSEWHERE = ["marked", "noted", "mark", "author", "reason", "note", "query",
  "passage", "reply", "answer", "tool", "prompt", "error", "text", "about"];
const WIDE = { "：": ":", "＜": "<", "＞": ">", "＝": "=", "（": "(", "）": ")", "！": "!", "\u3000": " " };

const questionOf = (a) => state.index.questions[state.cell.question[a]];
const outcomeOf = (a) => state.index.outcomes[state.cell.outcome[a]];
const known = (name, a) => figure(name, a) !== null;

function figure(name, a) {
  const cell = state.cell;
  if (name === "tokens") return cell.input[a] === null ? null : cell.input[a] + cell.output[a];
  const less = { gold_missed: "gold_found", gold_unseen: "gold_seen" }[name];
  if (less) return cell[less][a] === null ? null : cell.gold_known[a] - cell[less][a];
  return cell[name][a];
}

class FilterError extends Error {}

// Conditions give true, false, or null where what they ask for is not known: null fits neither it nor its opposite.
const not = (one) => (a) => { const held = one(a); return held === null ? null : !held; };
const every = (parts) => (a) => {
  let all = true;
  for (const part of parts) { const held = part(a); if (held === false) return false; if (held === null) all = null; }
  return all;
};
const some = (parts) => (a) => {
  let any = false;
  for (const part of parts) { const held = part(a); if (held === true) return true; if (held === null) any = null; }
  return any;
};

// The words that an expression looks for as text, and its condition; `holds(words)` makes the condition of words.
function parseFilter(given, holds) {
  const text = [...given].map((letter) => WIDE[letter] || letter).join("");
  const token = /\s*(?:([()])|"((?:[^"\\]|\\.)*)("?)|(<=|>=|!=|==|[<>=:])|([^\s()"<>=:!]+|!))/y;
  const value = /\s*(?:"((?:[^"\\]|\\.)*)"|((?:\[[^\]\s]*\]|[^\s()"])+))/y;
  let at = 0;
  const read = (pattern) => { pattern.lastIndex = at; return pattern.exec(text); };
  const look = () => {
    const found = read(token);
    if (!found) return { kind: "end", text: "" };
    const [whole, bracket, quoted, closed, sign, word] = found;
    const end = at + whole.length;
    if (quoted !== undefined && !closed) throw new FilterError("A quote is not closed.");
    if (bracket) return { kind: "bracket", text: bracket, end };
    if (sign) return { kind: "sign", text: sign, end };
    if (quoted !== undefined) return { kind: "quoted", text: quoted.replace(/\\(.)/g, "$1"), end };
    return { kind: "word", text: word, plain: word.toLowerCase(), end };
  };
  const take = () => { const found = look(); at = found.end ?? at; return found; };

  function either() {
    const parts = [both()];
    while (look().plain === "or") { take(); parts.push(both()); }
    return parts.length === 1 ? parts[0] : some(parts);
  }
  function both() {
    const parts = [single()];
    for (;;) {
      const ahead = look();
      if (ahead.plain === "and") take();
      else if (ahead.kind === "end" || ahead.text === ")" || ahead.plain === "or") break;
      parts.push(single());
    }
    return parts.length === 1 ? parts[0] : every(parts);
  }
  function single() {
    let found = take();
    let opposite = false;
    while (found.plain === "not") { opposite = !opposite; found = take(); }
    const made = positive(found);
    return opposite ? not(made) : made;
  }
  function positive(found) {
    if (found.kind === "bracket" && found.text === "(") {
      const inside = either();
      if (take().text !== ")") throw new FilterError("A ( has no ).");
      return inside;
    }
    if (found.kind === "quoted") return holds(found.text);
    if (found.kind === "word" && !["and", "or", "!"].includes(found.plain)) return word(found);
    throw new FilterError(found.kind === "end" ? "A condition is missing at the end: wrong, hops>3, agent:direct …"
      : `"${found.text}" needs a condition before it: wrong, hops>3, agent:direct …`);
  }
  function word(found) {
    const name = Object.hasOwn(ALIASES, found.plain) ? ALIASES[found.plain] : found.plain;
    if (name === "gold") return gold();
    if (look().kind === "sign") return compared(name, found.text, take().text);
    if (Object.hasOwn(FLAGS, name)) return FLAGS[name];
    if (state.index.outcomes.includes(name)) return (a) => outcomeOf(a) === name;
    if (COUNTED.includes(name)) return numbered(name, ">", 0);
    if (ELSEWHERE.includes(name)) throw elsewhere(name);
    if (Object.hasOwn(FIGURES, name)) throw new FilterError(`${name} needs something to compare with: ${name}>3.`);
    return holds(found.text);
  }
  const elsewhere = (name) => new FilterError(
    `This page cannot answer "${name}"; ragrounds trace can. As text: "${name}" in quotes.`);
  function valued(name, sign) {
    const found = read(value);
    if (!found) throw new FilterError(`${name}${sign} needs a value.`);
    at += found[0].length;
    return found[1] !== undefined ? found[1].replace(/\\(.)/g, "$1") : found[2];
  }
  function compared(name, written, sign) {
    if (Object.hasOwn(FIGURES, name)) return number(name, sign);
    if (Object.hasOwn(FLAGS, name) || state.index.outcomes.includes(name)) {
      throw new FilterError(`"${name}" takes no "${sign}".`);
    }
    if (ELSEWHERE.includes(name)) throw elsewhere(name);
    const wanted = valued(name, sign);
    const made = named(name, wanted, sign !== ":");
    if (!made) throw new FilterError(`There is no field "${written}". Put a text with a sign in it in quotes.`);
    if (![":", "=", "==", "!="].includes(sign)) throw new FilterError(`"${name}" is no number.`);
    return sign === "!=" ? not(made) : made;
  }
  function number(name, sign) {
    let written = valued(name, sign);
    if (["unknown", "none", "?"].includes(written.toLowerCase()) && [":", "=", "==", "!="].includes(sign)) {
      return sign === "!=" ? (a) => figure(name, a) !== null : (a) => figure(name, a) === null;
    }
    const unit = FIGURES[name];
    const ahead = look();
    if (/\d$/.test(written) && ahead.kind === "word" && Object.hasOwn(SIZES[unit], ahead.plain)) written += take().text;
    const found = /^(\$?)(-?(?:\d+(?:\.\d*)?|\.\d+))\s*([a-z%$]*)$/.exec(written.toLowerCase());
    const size = found && !(found[1] && found[3]) ? SIZES[unit][found[1] || found[3]] : undefined;
    if (size === undefined) throw new FilterError(`${name}${sign}${written}: a figure was expected.`);
    return numbered(name, sign, Number(found[2]) * size);
  }
  function gold() {
    let opposite = false;
    let all = false;
    if (look().plain === "not") { take(); opposite = true; }
    if (look().plain === "all") { take(); all = true; }
    const ahead = look();
    const name = Object.hasOwn(GOLD, ahead.plain || "") ? GOLD[ahead.plain] : "";
    if (!name || (all && !["gold_found", "gold_seen"].includes(name))) {
      throw new FilterError('gold needs found, seen, cut, known, rank or hop: gold not seen, gold rank<=5. As text: "gold".');
    }
    take();
    let made;
    if (look().kind === "sign") made = number(name, take().text);
    else if (["gold_rank", "gold_hop"].includes(name)) throw new FilterError(`gold ${ahead.text} needs a number: ${name}<=5.`);
    else if (name === "gold_known") return opposite ? (a) => !known(name, a) : (a) => known(name, a);
    else made = all ? numbered({ gold_found: "gold_missed", gold_seen: "gold_unseen" }[name], "=", 0) : numbered(name, ">", 0);
    return opposite ? not(made) : made;
  }

  if (look().kind === "end") return () => true;
  const whole = either();
  if (look().kind !== "end") throw new FilterError("There is a ) without its (.");
  return whole;
}

const COMPARISONS = {
  "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "=": (a, b) => a === b,
  "==": (a, b) => a === b, ":": (a, b) => a === b, "!=": (a, b) => a !== b,
};
function numbered(name, sign, wanted) {
  return (a) => { const value = figure(name, a); return value === null ? null : COMPARISONS[sign](value, wanted); };
}

function named(name, wanted, exactly) {
  const low = wanted.toLowerCase();
  if (name === "question") {
    const ends = (id) => id === wanted || id.endsWith(`/${wanted}`);
    const like = wanted.includes("*") ? pattern(low) : null;
    return (a) => like ? like.test(questionOf(a)[0].toLowerCase()) : ends(questionOf(a)[0]);
  }
  if (name === "prediction") return (a) => state.cell.prediction[a].toLowerCase() === low;
  if (name === "status") {
    const plain = low.replace(/ /g, "_");
    const ended = ["failed", "capped", "blocked", "paused", "not_run"];
    if (plain === "completed") return (a) => !ended.includes(outcomeOf(a));
    if (!state.index.outcomes.includes(plain)) {
      throw new FilterError(`status:${wanted} is unknown. Known: ${state.index.outcomes.join(", ")}, completed.`);
    }
    return (a) => outcomeOf(a) === plain;
  }
  if (!Object.hasOwn(NAMES, name)) return null;
  // A name that is there as it was typed is meant; else all that hold it.
  const all = new Set(state.cell.question.map((_, a) => NAMES[name](a)[0].toLowerCase()));
  const like = pattern(`*${low}*`);
  const fits = exactly || all.has(low) ? (one) => one === low : (one) => like.test(one);
  if (![...all].some(fits)) throw new FilterError(`No ${name} is called or holds "${wanted}".`);
  return (a) => fits(NAMES[name](a)[0].toLowerCase());
}

// A name in which * stands for anything.
function pattern(text) {
  const parts = text.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join("[^]*")}$`);
}
