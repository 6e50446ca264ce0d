// Blocks of data into values. Text is only ever put into the page as text, never as markup.
const byId = (id) => document.getElementById(id);
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const visible = (text) => String(text).replace(/\r\n/g, "\n").replace(HIDDEN,
  (letter) => `<U+${letter.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}>`);

function el(tag, content, className) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (content !== undefined && content !== null) made.textContent = visible(content);
  return made;
}

async function unpackText(id) {
  const block = byId(id);
  const letters = atob(block.textContent);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

const unpack = async (id) => JSON.parse(await unpackText(id));

const kept = new Map();
async function chunk(number) {
  if (!kept.has(number)) {
    if (kept.size >= 24) kept.delete(kept.keys().next().value);
    kept.set(number, unpack(`chunk-${number}`));
  }
  return kept.get(number);
}

const tokens = (value) => value === null ? "-" : value >= 1e6 ? `${(value / 1e6).toFixed(1)}M`
  : value >= 1e3 ? `${(value / 1e3).toFixed(1)}k` : String(value);
const dollars = (value) => value === null ? "unknown" : value === 0 || value >= 0.1 ? `$${value.toFixed(2)}`
  : `$${value.toPrecision(2)}`;
const seconds = (value) => value === null ? "-" : `${value < 10 ? value.toPrecision(2) : Math.round(value)} s`;
