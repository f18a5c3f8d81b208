// The list of suggestions: one row per label, which stays the same element while its place changes.

import { badge, counted, element, icon, percent } from "./dom.js";
import { summed } from "./marks.js";

const SHOWN_WORDS = 8;
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class ResultList {
  /** `on`: functions `decide(label, how)`, `exclude(label)`, `explain(label)`. */
  constructor(list, on) {
    this.list = list;
    this.on = on;
    this.rows = new Map();
    list.addEventListener("keydown", (event) => this.onKey(event));
  }

  /** Show labels in their order; `decisions` maps URIs to what was decided. */
  show(found, decisions) {
    const focused = this.list.contains(document.activeElement) ? document.activeElement : null;
    const before = new Map([...this.list.children].map((row) => [row, row.getBoundingClientRect().top]));
    const rows = found.map((label) => {
      const row = this.rows.get(label.uri) ?? this.make(label);
      this.rows.set(label.uri, row);
      fill(row, label, decisions.get(label.uri)?.how);
      return row;
    });
    this.list.replaceChildren(...rows);
    if (focused?.isConnected) focused.focus({ preventScroll: true });
    if (!still.matches) for (const row of rows) slide(row, before.get(row));
    if (this.rows.size > 500) this.rows = new Map(found.map((label, i) => [label.uri, rows[i]]));
  }

  /** Forget all rows: those of another model, or with names in another language. */
  clear() {
    this.rows.clear();
    this.list.replaceChildren();
  }

  rowOf(uri) {
    return this.rows.get(uri);
  }

  make(label) {
    const { on } = this;
    const why = element("div", { className: "why", hidden: true });
    why.id = `why-${this.rows.size}-${Math.random().toString(36).slice(2, 8)}`;
    const name = element("button", {
      type: "button", className: "name", title: "Why?", "aria-expanded": "false", "aria-controls": why.id,
      onclick: () => on.explain(row.label),
    }, label.label);
    const control = (kind, symbol, said, key, act) => element("button", {
      type: "button", className: kind, title: `${said} (${key})`, "aria-label": `${said}: ${label.label}`, onclick: act,
    }, icon(symbol));
    const row = element("li", {},
      name,
      element("span", { className: "chance" }, element("span", { className: "bar" }, element("i")), element("span", { className: "value" })),
      element("span", { className: "decide" },
        control("accept", "yes", "Accept", "A", () => on.decide(row.label, "accepted")),
        control("reject", "no", "Reject", "R", () => on.decide(row.label, "rejected")),
        control("exclude", "never", "Never suggest", "X", () => on.exclude(row.label)),
      ),
      element("p", { className: "details" },
        badge(label.band),
        label.count ? element("span", {}, counted(label.count, "training text")) : null,
        label.notation ? element("span", {}, label.notation) : null,
        label.parents.length ? element("span", {}, `under ${label.parents.map((one) => one.label).join(", ")}`) : null,
      ),
      why,
    );
    return row;
  }

  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const row = event.target.closest("li");
    const next = { ArrowDown: row?.nextElementSibling, ArrowUp: row?.previousElementSibling }[event.key];
    const press = { a: ".accept", r: ".reject", x: ".exclude" }[event.key.toLowerCase()];
    const isOpen = row?.querySelector(".name").getAttribute("aria-expanded") === "true";
    if (next) next.querySelector(".name").focus();
    else if (row && press) row.querySelector(press).click();
    else if (event.key === "Escape" && isOpen) row.querySelector(".name").click();
    else return;
    event.preventDefault();
  }
}

function fill(row, label, decided) {
  row.label = label;
  row.querySelector(".bar i").style.width = `${100 * label.probability}%`;
  row.querySelector(".value").textContent = percent(label.probability);
  row.className = decided || "";
  row.querySelector(".accept").setAttribute("aria-pressed", decided === "accepted" || decided === "added");
  row.querySelector(".reject").setAttribute("aria-pressed", decided === "rejected");
}

function slide(row, from) {
  if (from === undefined) {
    row.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 180 });
    return;
  }
  const moved = from - row.getBoundingClientRect().top;
  if (Math.abs(moved) > 1) {
    row.animate([{ transform: `translateY(${moved}px)` }, { transform: "none" }], { duration: 220, easing: "ease-out" });
  }
}

/** What an explanation says in words. */
export function explained(tokens) {
  const { spoke, against } = summed(tokens);
  if (!spoke.length && !against.length) return [element("p", {}, "No word of the text speaks for this label.")];
  const listed = (words, kind) => words.slice(0, SHOWN_WORDS).flatMap(([word, weight], i) =>
    [i ? ", " : " ", element("mark", { className: kind }, word), ` ${Math.round(100 * Math.abs(weight))}\u00a0%`]);
  return [
    spoke.length ? element("p", {}, "Spoke for it:", listed(spoke, "f2")) : null,
    against.length ? element("p", {}, "Spoke against it:", listed(against, "a2")) : null,
  ].filter(Boolean);
}
