// The first view: a text, its suggestions, and what a person decides about them.

import { Problem, call } from "./api.js";
import { Chosen } from "./chosen.js";
import { byId, counted, element, icon, later, memory, newestOnly, number } from "./dom.js";
import { mark, unmark } from "./marks.js";
import { ResultList, explained } from "./results.js";

const WAIT = 250; // milliseconds after a key
const BANDS = ["head", "torso", "tail"];

export const newDocument = (text = "", more = {}) => ({ text, decisions: new Map(), ...more });

export class Desk {
  constructor() {
    this.model = null;
    this.language = "";
    this.document = newDocument();
    this.found = [];
    this.open = null; // the label whose words are marked
    this.list = new ResultList(byId("found"), {
      decide: (label, how) => this.decide(label, this.document.decisions.get(label.uri)?.how === how ? null : how),
      exclude: (label) => this.exclude(label),
      explain: (label) => this.explain(label),
    });
    this.chosen = new Chosen(this, (label, how) => this.decide(label, how));
    this.suggest = newestOnly(() => this.suggestNow());
    this.listen();
  }

  listen() {
    const soon = later(() => this.suggest(), WAIT);
    const text = byId("text");
    text.addEventListener("paste", () => {
      if (text.selectionStart === 0 && text.selectionEnd === text.value.length) this.document = newDocument();
    });
    text.addEventListener("input", () => {
      this.document.text = text.value;
      if (!text.value) this.document = newDocument();
      this.textChanged();
      soon();
    });
    byId("clear").addEventListener("click", () => {
      this.openDocument(newDocument());
      text.focus();
    });
    byId("exponent").addEventListener("input", () => {
      this.showExponent();
      this.suggest();
    });
    for (const name of ["limit", "threshold"]) {
      byId(name).value = memory.get(name, byId(name).value);
      byId(name).addEventListener("input", () => {
        memory.set(name, byId(name).value);
        soon();
      });
    }
  }

  /** Work with another model; the text stays, decisions about labels of the other do not. */
  setModel(model) {
    this.model = model;
    this.excluded = new Map(memory.get(`excluded ${model.id}`, []));
    byId("exponent").value = model.exponent;
    byId("limit").max = Math.min(model.limits.limit, model.labels);
    byId("add").value = "";
    this.document = newDocument(this.document.text);
    byId("uncalibrated").hidden = !model.probabilities.startsWith("not calibrated");
    this.showExponent();
    this.showExcluded();
    this.setLanguage(model.language);
  }

  setLanguage(language) {
    this.language = language;
    this.list.clear();
    this.textChanged();
    this.suggest();
  }

  openDocument(opened) {
    this.document = opened;
    byId("text").value = opened.text;
    this.textChanged();
    this.chosen.say("");
    return this.suggest();
  }

  textChanged() {
    if (!this.model) return; // until the service has said which models there are
    this.close();
    unmark(byId("text").value);
    const { length } = byId("text").value;
    byId("length").textContent = length ? `${counted(length, "character")}.` : "";
    this.chosen.show();
  }

  /** What a request asks for, from the dials. */
  wish() {
    const limit = Math.round(Number(byId("limit").value)) || 10;
    const threshold = Number(byId("threshold").value) / 100 || 0;
    return {
      limit: Math.min(Math.max(limit, 1), this.model.limits.limit),
      threshold: Math.min(Math.max(threshold, 0), 1),
      exponent: Number(byId("exponent").value),
      exclude: [...this.excluded.keys()],
      language: this.language,
    };
  }

  async suggestNow() {
    const { text } = this.document;
    if (!this.model) return;
    if (this.model.reads !== "texts") {
      this.show([], `The model ${this.model.name} reads rows of features; programs can ask it, this page cannot.`);
      return;
    }
    if (!text.trim()) {
      this.show([], "Suggested labels appear here.");
      return;
    }
    if (text.length > 2 * this.model.limits.characters) {
      this.show([], `The text has ${number(text.length)} characters; the service takes ${number(this.model.limits.characters)}.`);
      return;
    }
    try {
      const { results } = await call(`models/${this.model.id}/suggest`, { texts: [text], ...this.wish() }, { patient: true });
      const lower = this.wish().threshold ? " Lower the share that a label must have." : "";
      this.show(results[0], results[0].length ? "" : `No label for this text.${lower}`);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.show([], error.message);
    }
  }

  show(found, instead) {
    this.found = found;
    this.list.show(found, this.document.decisions);
    byId("nothing").textContent = instead;
    byId("keys").hidden = !found.length;
    byId("mix").replaceChildren(...BANDS.flatMap((band) => {
      const n = found.filter((one) => one.band === band).length;
      return n ? [element("span", {}, icon(`band-${band}`, "band"), ` ${n} ${band}`)] : [];
    }));
    if (this.open && !found.some((one) => one.uri === this.open)) this.close();
    this.chosen.show();
  }

  showExponent() {
    const value = Number(byId("exponent").value);
    byId("exponent-value").textContent = value.toFixed(2);
    const said = value === 0 ? "by probability" : value === 1 ? "rare labels count most" : "rare labels count more";
    byId("exponent").setAttribute("aria-valuetext", `${value.toFixed(2)}, ${said}`);
  }

  decide(label, how) {
    const { decisions } = this.document;
    if (!how) decisions.delete(label.uri);
    else decisions.set(label.uri, { ...label, how: how === "added" && this.found.some((one) => one.uri === label.uri) ? "accepted" : how });
    this.chosen.say(how === "added" ? `Added ${label.label}.` : "");
    this.list.show(this.found, decisions);
    this.chosen.show();
  }

  exclude(label) {
    const row = this.list.rowOf(label.uri);
    (row?.nextElementSibling ?? row?.previousElementSibling)?.querySelector(".name").focus();
    this.excluded.set(label.uri, label.label);
    this.document.decisions.delete(label.uri);
    this.keepExcluded();
  }

  keepExcluded() {
    memory.set(`excluded ${this.model.id}`, [...this.excluded]);
    this.showExcluded();
    this.suggest();
  }

  showExcluded() {
    byId("excluded").hidden = !this.excluded.size;
    byId("excluded").querySelector("ul").replaceChildren(...[...this.excluded].map(([uri, label]) => element("li", {},
      label,
      element("button", {
        type: "button", "aria-label": `Suggest ${label} again`, onclick: () => {
          this.excluded.delete(uri);
          this.keepExcluded();
          byId("text").focus();
        },
      }, icon("no")),
    )));
  }

  /** Show why a label was suggested, or hide it again. */
  async explain(label) {
    const again = this.open === label.uri;
    this.close();
    if (again) return;
    const row = this.list.rowOf(label.uri);
    const why = row.querySelector(".why");
    this.open = label.uri;
    row.querySelector(".name").setAttribute("aria-expanded", "true");
    why.hidden = false;
    why.setAttribute("role", "status");
    why.replaceChildren("Looking…");
    try {
      const { text } = this.document;
      if (!this.model.explains) throw new Problem(0, "This model does not say which words spoke for a label.");
      const { tokens } = await call(`models/${this.model.id}/explain`, { text, label: label.uri }, { patient: true });
      if (this.open !== label.uri || this.document.text !== text) return;
      mark(text, tokens);
      why.replaceChildren(...explained(tokens));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      why.replaceChildren(error.message);
    }
  }

  close() {
    const row = this.open && this.list.rowOf(this.open);
    if (row) {
      row.querySelector(".name").setAttribute("aria-expanded", "false");
      row.querySelector(".why").hidden = true;
    }
    this.open = null;
    unmark(byId("text").value);
  }
}
