// Words of the text that spoke for a label (or against it), marked in place.

import { byId, element } from "./dom.js";

const STRENGTHS = 4;
const FAINTEST = 0.12; // of the strongest word: fainter ones are not marked
const MOST = 5000; // marks: a browser takes seconds to lay out many more

/** Show a text without marks: the layer gives the sheet its height, too. */
export function unmark(text) {
  byId("marks").replaceChildren(`${text}\n`);
}

/** Mark the tokens of an explanation, and bring the strongest into view. */
export function mark(text, tokens) {
  const weights = new Float32Array(text.length);
  for (const { start, end, weight } of utf16Places(text, tokens)) {
    for (let i = start; i < end; i += 1) weights[i] += weight;
  }
  const layer = document.createDocumentFragment();
  let strongest = null;
  let done = 0;
  for (const { start, end, share } of pieces(weights)) {
    const level = Math.ceil(STRENGTHS * Math.abs(share));
    const made = element("mark", { className: `${share > 0 ? "f" : "a"}${level}` }, text.slice(start, end));
    if (share === 1) strongest ??= made;
    layer.append(text.slice(done, start), made);
    done = end;
  }
  layer.append(`${text.slice(done)}\n`);
  byId("marks").replaceChildren(layer);
  scrollTo(strongest);
}

/** Parts of the text to mark, each of one weight, with their shares of the greatest; of very many, the strongest. */
function pieces(weights) {
  let most = 0;
  for (const weight of weights) most = Math.max(most, Math.abs(weight));
  const found = [];
  for (let start = 0, end; start < weights.length; start = end) {
    for (end = start + 1; end < weights.length && weights[end] === weights[start];) end += 1;
    const share = most && weights[start] / most;
    if (Math.abs(share) >= FAINTEST) found.push({ start, end, share });
  }
  if (found.length <= MOST) return found;
  found.sort((a, b) => Math.abs(b.share) - Math.abs(a.share));
  return found.slice(0, MOST).sort((a, b) => a.start - b.start);
}

/** Sum the weights of equal words; the strongest first, those that spoke for the label and those against it. */
export function summed(tokens) {
  const sums = new Map();
  for (const { token, weight } of tokens) sums.set(token, (sums.get(token) || 0) + weight);
  const ordered = [...sums].filter(([, weight]) => Math.abs(weight) >= 0.005).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  return { spoke: ordered.filter(([, weight]) => weight > 0), against: ordered.filter(([, weight]) => weight < 0) };
}

/** The service counts characters, a browser counts UTF-16 units: they differ after the first emoji. */
function utf16Places(text, tokens) {
  if (!/[\ud800-\udfff]/.test(text)) return tokens;
  const units = [];
  let unit = 0;
  for (const character of text) {
    units.push(unit);
    unit += character.length;
  }
  units.push(unit);
  return tokens.map(({ start, end, weight }) => ({ start: units[start], end: units[end], weight }));
}

function scrollTo(marked) {
  const sheet = byId("sheet");
  if (!marked) return;
  const top = marked.offsetTop - sheet.offsetTop;
  if (top < sheet.scrollTop || top > sheet.scrollTop + sheet.clientHeight - 40) {
    sheet.scrollTo({ top: Math.max(0, top - sheet.clientHeight / 3) });
  }
}
