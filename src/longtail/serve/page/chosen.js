// The labels that a person has chosen: chips, a search to add more, copies, feedback.

import { Problem, call } from "./api.js";
import { badge, byId, counted, element, icon, later, newestOnly } from "./dom.js";
import { asText, copy } from "./labels.js";

export const chosenOf = (decisions) => [...decisions.values()].filter((one) => one.how !== "rejected");

function counts(decisions) {
  const said = { accepted: 0, added: 0, rejected: 0 };
  for (const { how } of decisions.values()) said[how] += 1;
  return Object.entries(said).filter(([, n]) => n).map(([how, n]) => `${n} ${how}`).join(", ");
}

export class Chosen {
  /** `desk` has `model`, `language`, `document` and `found`; `onChange(label, how)` decides about a label. */
  constructor(desk, onChange) {
    this.desk = desk;
    this.onChange = onChange;
    for (const button of document.querySelectorAll("[data-copy]")) {
      button.addEventListener("click", () => this.copy(button.dataset.copy, button.textContent));
    }
    byId("send").addEventListener("click", () => this.send());
    new Search(desk, (label) => onChange(label, "added"));
  }

  show() {
    const { document: { decisions }, found, model } = this.desk;
    const labels = chosenOf(decisions);
    byId("chosen").replaceChildren(...labels.map((label) => element("li", { className: label.how, title: label.uri },
      label.label,
      element("button", { type: "button", "aria-label": `Remove ${label.label}`, onclick: () => this.remove(label) }, icon("no")),
    )));
    byId("copy-title").textContent = labels.length ? "Copy them as" : "Copy all as";
    for (const button of document.querySelectorAll("[data-copy]")) button.disabled = !labels.length && !found.length;
    byId("send").disabled = !decisions.size || !model.feedback;
    byId("send").title = model.feedback ? "" : "This service stores no feedback; it would if started with --feedback FOLDER";
  }

  say(text, bad = false) {
    byId("said").className = bad ? "said bad" : "said";
    byId("said").textContent = text;
  }

  remove(label) {
    this.onChange(label, null);
    (byId("chosen").querySelector("button") ?? byId("add")).focus();
  }

  async copy(kind, name) {
    const own = chosenOf(this.desk.document.decisions);
    const labels = own.length ? own : this.desk.found;
    try {
      await copy(asText(labels, kind));
      this.say(`Copied ${counted(labels.length, own.length ? "chosen label" : "suggestion")} as ${name}.`);
    } catch (error) {
      this.say(`Not copied: ${error.message}`, true);
    }
  }

  async send() {
    const { model, document: { text, decisions, id } } = this.desk;
    const named = (how) => [...decisions.values()].filter((one) => one.how === how).map((one) => one.uri);
    const body = { text, accepted: named("accepted"), rejected: named("rejected"), added: named("added") };
    try {
      await call(`models/${model.id}/feedback`, id === undefined ? body : { ...body, document_id: String(id) }, { patient: true });
      this.say(`Feedback stored: ${counts(decisions)}. It counts when the model is trained again.`);
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      this.say(`Not stored: ${error.message}`, true);
    }
  }
}

/** A field that searches labels: the combobox of the ARIA practices, a list below the field. */
class Search {
  constructor(desk, onPick) {
    this.desk = desk;
    this.onPick = onPick;
    this.field = byId("add");
    this.list = byId("matches");
    this.labels = [];
    this.active = -1;
    const search = later(newestOnly(() => this.search()), 120);
    this.field.addEventListener("input", search);
    this.field.addEventListener("keydown", (event) => this.onKey(event));
    this.field.addEventListener("blur", () => setTimeout(() => this.close(), 150));
  }

  async search() {
    const query = this.field.value.trim();
    if (!query || !this.desk.model) {
      this.close();
      return;
    }
    const asked = new URLSearchParams({ q: query, limit: "12", language: this.desk.language });
    let labels = [];
    let instead = "No such label";
    try {
      ({ labels } = await call(`models/${this.desk.model.id}/labels?${asked}`, undefined, { patient: true }));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      instead = error.message;
    }
    if (this.field.value.trim() !== query) return;
    this.labels = labels;
    this.show(instead);
  }

  /** List the labels that were found, or say what there is instead. */
  show(instead) {
    const options = this.labels.map((label, i) => element("li", {
      role: "option", id: `match-${i}`, "aria-selected": String(i === this.active),
      onmousedown: (event) => event.preventDefault(), onclick: () => this.pick(i),
    }, label.label, badge(label.band)));
    const none = element("li", { role: "option", "aria-disabled": "true", "aria-selected": "false", className: "quiet" }, instead);
    this.list.replaceChildren(...(options.length ? options : [none]));
    this.list.hidden = false;
    this.field.setAttribute("aria-expanded", "true");
    this.activate(options.length ? 0 : -1);
  }

  activate(place) {
    this.active = place;
    [...this.list.children].forEach((option, i) => option.setAttribute("aria-selected", String(i === place)));
    if (place < 0) this.field.removeAttribute("aria-activedescendant");
    else {
      this.field.setAttribute("aria-activedescendant", `match-${place}`);
      this.list.children[place].scrollIntoView({ block: "nearest" });
    }
  }

  onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.labels.length && !this.list.hidden) {
      this.activate((this.active + step + this.labels.length) % this.labels.length);
    } else if (event.key === "Enter" && this.active >= 0) this.pick(this.active);
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
  }

  pick(place) {
    this.onPick(this.labels[place]);
    this.field.value = "";
    this.close();
  }

  close() {
    this.list.hidden = true;
    this.labels = [];
    this.active = -1;
    this.field.setAttribute("aria-expanded", "false");
    this.field.removeAttribute("aria-activedescendant");
  }
}
