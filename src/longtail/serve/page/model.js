// The third view: what a model is, as one would show it to a colleague.

import { badge, byId, counted, element, number } from "./dom.js";
import { frontierFigure } from "./frontier.js";

const DEPTHS = [1, 3, 5];
const KINDS = {
  P: "precision: right among the first k", nDCG: "as P, the first count more", R: "recall: found of the true labels",
  PSP: "precision, rare labels count more", PSnDCG: "as PSP, the first count more", coverage: "labels ever suggested rightly",
};
const BANDS = ["head", "torso", "tail", "unseen"];

const share = (value) => `${(100 * value).toFixed(1)}\u00a0%`;

function table(caption, head, rows) {
  return element("div", { className: "scroll", tabIndex: 0, role: "region", "aria-label": caption }, element("table", {},
    element("caption", { className: "unseen" }, caption),
    element("thead", {}, element("tr", {}, head.map((name, i) => element("th", { scope: "col", className: i ? "number" : "" }, name)))),
    element("tbody", {}, rows.map(([name, ...values]) => element("tr", {},
      element("th", { scope: "row" }, name), values.map((value) => element("td", { className: "number" }, value))))),
  ));
}

const view = (title, ...content) => element("section", { className: "view" }, element("h2", {}, title), ...content);

function figure(value, what, more) {
  return element("li", {}, element("b", {}, value), what, element("small", {}, more));
}

export function showModel(model, exponent) {
  byId("model-title").textContent = model.name;
  const size = (one) => Object.keys(one.metrics).length;
  const best = model.evaluations.reduce((a, b) => (a && size(a) >= size(b) ? a : b), undefined);
  const traded = model.evaluations.find((one) => one.frontier.length);
  const written = new Date(model.modified).toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric" });
  const precision = best?.metrics["P@1"];
  byId("about").replaceChildren(
    element("p", { className: "quiet" }, `${model.model}, written on ${written}. It reads ${model.reads}.`),
    element("ul", { className: "figures" },
      figure(number(model.points), `training ${model.reads === "texts" ? "texts" : "points"}`, "what it learned from"),
      figure(number(model.labels), "labels", "what it can suggest"),
      figure(number(model.bands.tail.labels), "tail labels", `${share(model.bands.tail.share)} of all occurrences`),
      precision === undefined ? null : figure(`${precision.toFixed(1)} %`, "first suggestions right", `P@1 on ${best.data}`),
    ),
    element("div", { className: "pair" }, bands(model), about(model)),
    best ? metrics(best) : noFigures(model),
    traded ? frontier(traded, exponent) : "",
    element("details", {}, element("summary", {}, "Parameters"), element("dl", {}, Object.entries(model.parameters).flatMap(
      ([name, value]) => [element("dt", {}, name), element("dd", {}, String(value ?? "none"))]))),
  );
}

function bands(model) {
  const rows = BANDS.filter((band) => model.bands[band].labels).map((band) =>
    [badge(band), number(model.bands[band].labels), share(model.bands[band].share)]);
  return view("Frequent and rare labels",
    element("p", {}, "A few labels have most of the training texts, and most labels have few."),
    table("Labels by frequency", ["band", "labels", "share of all occurrences"], rows),
    element("p", { className: "quiet" }, `An occurrence of a label was recorded with a probability (propensity) between ${share(model.propensities.lowest)} and ${share(model.propensities.highest)}, by its frequency; the slider weighs by it.`),
  );
}

function about(model) {
  const facts = {
    id: model.id, probabilities: model.probabilities, "names of labels in": model.languages.map((code) => (code === "und" ? "a language that nobody named" : code)).join(", "),
    "slider at first": model.exponent ? String(model.exponent) : "0, by probability",
    "says why": model.explains ? "yes: click on a label" : "no",
    feedback: model.feedback ? "is stored for the next training" : "is not stored (the service was started without --feedback)",
    "longest text": counted(model.limits.characters, "character"),
  };
  return view("About", element("dl", {}, Object.entries(facts).flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
}

function metrics({ data, points, date, metrics: found }) {
  const rows = Object.entries(KINDS).filter(([name]) => DEPTHS.some((k) => `${name}@${k}` in found)).map(([name, said]) =>
    [element("span", {}, name, " ", element("span", { className: "quiet" }, said)), ...DEPTHS.map((k) => found[`${name}@${k}`]?.toFixed(1) ?? "–")]);
  const when = date ? ` on ${new Date(date).toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric" })}` : "";
  return view("How good it is",
    element("p", {}, `Percent, measured on ${data}${points ? ` (${counted(points, "text")})` : ""}${when}.`),
    table("Metrics", ["metric", ...DEPTHS.map((k) => `k\u00a0=\u00a0${k}`)], rows));
}

function frontier({ frontier: rows }, exponent) {
  const depths = Object.keys(rows[0]).filter((name) => /^P@\d+$/.test(name)).map((name) => Number(name.slice(2)));
  return view("What the slider trades",
    element("p", {}, "Toward the tail more rare labels are found, and fewer first suggestions are right."),
    element("div", { className: "pair" }, depths.map((depth) => frontierFigure(rows, depth, exponent))),
    element("details", {}, element("summary", {}, "The numbers"), table("Frontier", Object.keys(rows[0]),
      rows.map((row) => Object.entries(row).map(([name, value]) => (name === "exponent" ? String(value) : value.toFixed(1)))))),
  );
}

function noFigures(model) {
  return view("How good it is", element("p", {}, "Nobody has measured it yet, or the service was not told. ",
    element("code", {}, "longtail evaluate MODEL TEST --keep"), " keeps figures beside the model; with ",
    element("code", {}, "longtail report MODEL TEST --out report.html"), " and ", element("code", {}, `metrics = "report.json"`),
    ` in the settings of ${model.id}, the trade between frequent and rare labels is shown, too.`));
}
