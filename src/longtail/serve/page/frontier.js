// The frontier: what precision (P) a model gives for precision on rare labels (PSP), one dot per exponent.

import { element } from "./dom.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, MARGIN] = [560, 340, 62, 50, 18];
const SVG = "http://www.w3.org/2000/svg";

function draw(tag, given, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(given)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function scale(values, from, to) {
  let [low, high] = [Math.min(...values), Math.max(...values)];
  const room = Math.max(0.06 * (high - low), 0.4);
  [low, high] = [low - room, high + room];
  const step = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20].find((one) => (high - low) / one <= 6) ?? 25;
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high; tick += step) ticks.push(tick);
  return { at: (value) => from + ((value - low) / (high - low)) * (to - from), ticks, digits: step < 1 ? 1 : 0 };
}

/** A figure of the rows of a report's frontier; `exponent` is where the slider stands. */
export function frontierFigure(rows, depth, exponent) {
  const [p, psp] = [`P@${depth}`, `PSP@${depth}`];
  const x = scale(rows.map((row) => row[p]), LEFT, WIDTH - MARGIN);
  const y = scale(rows.map((row) => row[psp]), HEIGHT - BOTTOM, MARGIN);
  const [first, last] = [rows[0], rows.at(-1)];
  const title = `${psp} against ${p}: from ${first[p].toFixed(1)} and ${first[psp].toFixed(1)} at exponent ${first.exponent} to ${last[p].toFixed(1)} and ${last[psp].toFixed(1)} at exponent ${last.exponent}.`;
  const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title });
  for (const tick of x.ticks) {
    svg.append(
      draw("line", { class: "grid", x1: x.at(tick), x2: x.at(tick), y1: MARGIN, y2: HEIGHT - BOTTOM }),
      draw("text", { x: x.at(tick), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, tick.toFixed(x.digits)),
    );
  }
  for (const tick of y.ticks) {
    svg.append(
      draw("line", { class: "grid", x1: LEFT, x2: WIDTH - MARGIN, y1: y.at(tick), y2: y.at(tick) }),
      draw("text", { x: LEFT - 8, y: y.at(tick) + 4, "text-anchor": "end" }, tick.toFixed(y.digits)),
    );
  }
  svg.append(
    draw("text", { class: "strong", x: (LEFT + WIDTH - MARGIN) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, depth === 1 ? `${p}, percent: the first suggestion is right` : `${p}, percent: right among the first ${depth}`),
    draw("text", { class: "strong", transform: `translate(16 ${(HEIGHT - BOTTOM + MARGIN) / 2}) rotate(-90)`, "text-anchor": "middle" }, `${psp}: rare labels count more`),
    draw("polyline", { class: "path", points: rows.map((row) => `${x.at(row[p])},${y.at(row[psp])}`).join(" ") }),
  );
  const nearest = rows.reduce((a, b) => (Math.abs(b.exponent - exponent) < Math.abs(a.exponent - exponent) ? b : a));
  for (const row of rows) {
    const here = row === nearest;
    svg.append(draw("circle", { class: here ? "dot here" : "dot", cx: x.at(row[p]), cy: y.at(row[psp]), r: here ? 6 : 4 }));
    if (here || row === first || row === last) {
      const right = x.at(row[p]) > WIDTH / 2;
      svg.append(draw("text", {
        class: here ? "strong" : "", x: x.at(row[p]) + (right ? -10 : 10), y: y.at(row[psp]) + (right ? 16 : -8), "text-anchor": right ? "end" : "start",
      }, here ? `${row.exponent} (slider)` : `${row.exponent}`));
    }
  }
  return element("figure", {}, svg, element("figcaption", {},
    "Each dot is a place of the slider, from head (0) to tail (1). The filled dot is nearest to where it stands now."));
}
