// Conditions in the words of `ragrounds trace --where`, all of which must hold: wrong hops>3 not gold seen "two words".
// What else that language can ask, the page refuses: by the index's words, it takes none of them for a text.
const FLAGS = {
  right: (a) => figure("score", a) >= 1 && known("score", a), wrong: (a) => known("score", a) && figure("score", a) < 1,
  partly: (a) => figure("score", a) > 0 && figure("score", a) < 1, scored: (a) => known("score", a),
  unscored: (a) => !known("score", a), made: () => true, differ: (a) => state.differ.has(state.cell.question[a]),
  troubled: (a) => ["failed", "capped", "blocked", "paused", "empty"].includes(outcomeOf(a)),
};
const TOKEN = /\s*(?:(not|and)(?![^\s"])|gold\s+(not\s+)?(found|seen|cut|known)(?![^\s"])|(\w+)(<=|>=|!=|[<>=])([^\s"]+)|"([^"]*)"|([^\s"]+))/iy;
const COMPARISONS = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b,
  "=": (a, b) => a === b, "!=": (a, b) => a !== b };

const questionOf = (a) => state.index.questions[state.cell.question[a]];
const outcomeOf = (a) => state.index.outcomes[state.cell.outcome[a]];
const known = (name, a) => figure(name, a) !== null;

function figure(name, a) {
  const { input, output } = state.cell;
  if (name === "tokens") return input[a] === null ? null : input[a] + output[a];
  return state.cell[name][a];
}

class FilterError extends Error {}

// Conditions give true, false, or null where what they ask for is not known: null fits neither it nor its opposite.
const not = (one) => (a) => { const held = one(a); return held === null ? null : !held; };

// The condition of an expression; `holds(words)` makes that of words which are looked for as text.
function parseFilter(text, holds) {
  const tests = [];
  let opposite = false;
  for (let at = 0; text.slice(at).trim(); at = TOKEN.lastIndex) {
    TOKEN.lastIndex = at;
    const found = TOKEN.exec(text);
    if (!found) throw new FilterError("A quote is not closed.");
    const [, joining, without, gold, name, sign, value, quoted, word] = found;
    opposite = joining?.toLowerCase() === "not" ? !opposite : opposite !== Boolean(without);
    if (joining) continue;
    const test = gold ? ofGold(gold.toLowerCase()) : name ? compared(name, sign, value)
      : quoted === undefined ? single(word, holds) : holds(quoted);
    tests.push(opposite ? not(test) : test);
    opposite = false;
  }
  if (opposite) throw new FilterError("A condition is missing at the end: wrong, hops>3 …");
  return (a) => tests.every((test) => test(a) === true);
}

const elsewhere = (given) => new FilterError(
  `This page cannot answer "${given}"; ragrounds trace can. As text: "${given}" in quotes.`);
const ofGold = (name) => name === "known" ? (a) => known("gold_known", a) : numbered(`gold_${name}`, ">", 0);
const meant = (word) => Object.hasOwn(state.index.words, word) ? state.index.words[word] : ["", ""];

function numbered(name, sign, wanted) {
  return (a) => { const value = figure(name, a); return value === null ? null : COMPARISONS[sign](value, wanted); };
}

function single(word, holds) {
  const [name, kind] = meant(word.toLowerCase());
  if (Object.hasOwn(FLAGS, name || word)) return FLAGS[name || word];
  if (state.index.outcomes.includes(name)) return (a) => outcomeOf(a) === name;
  if (kind === "count") return numbered(name, ">", 0);
  if (name || ["or", "gold"].includes(word.toLowerCase()) || /[()<>=!:（）＜＞＝！：]/.test(word)) throw elsewhere(word);
  return holds(word);
}

function compared(given, sign, value) {
  const [name, kind] = meant(given.toLowerCase());
  const found = /^\$?(-?(?:\d+(?:\.\d*)?|\.\d+))([k%s]?)$/i.exec(value);
  if (!["count", "number"].includes(kind) || (name !== "tokens" && !state.cell[name])) throw elsewhere(given + sign + value);
  if (value.toLowerCase() === "unknown" && sign === "=") return (a) => !known(name, a);
  if (!found) throw new FilterError(`${given}${sign}${value}: a figure was expected.`);
  return numbered(name, sign, Number(found[1]) * { k: 1e3, "%": 0.01 }[found[2].toLowerCase()] || Number(found[1]));
}
