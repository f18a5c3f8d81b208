// Small helpers: elements, numbers as people read them, work of which only the newest counts.

export const byId = (id) => document.getElementById(id);

/** An element with properties, attributes (names with a dash, role, for) and children; text is never parsed as HTML. */
export function element(tag, given = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (name in made && !name.includes("-")) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function icon(name, kind = "") {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  use.setAttribute("href", `#${name}`);
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", kind);
  svg.append(use);
  return svg;
}

const BANDS = {
  head: "one of the few labels that have half of all occurrences", torso: "neither frequent nor rare",
  tail: "one of the many labels that have a tenth of all occurrences", unseen: "no training text has it",
};

export const badge = (band) =>
  element("span", { className: "badge", title: BANDS[band] }, icon(`band-${band}`, "band"), band);

export const number = (value) => value.toLocaleString("en");
export const counted = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

export function percent(probability) {
  const value = 100 * probability;
  if (value < 0.1) return "<\u00a00.1\u00a0%";
  return `${value < 10 ? value.toFixed(1) : value.toFixed(0)}\u00a0%`;
}

/** Run `work` one call at a time; of the calls that come meanwhile only the newest is made. */
export function newestOnly(work) {
  let running = false;
  let waiting = null;
  return async function call(...given) {
    if (running) {
      waiting = given;
      return;
    }
    running = true;
    try {
      await work(...given);
    } finally {
      running = false;
      if (waiting) {
        const next = waiting;
        waiting = null;
        call(...next);
      }
    }
  };
}

export function later(work, milliseconds) {
  let timer = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
}

/** What the browser remembers between visits; a browser that forbids it forgets. */
export const memory = {
  get(name, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(`longtail ${name}`)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  set(name, value) {
    try {
      localStorage.setItem(`longtail ${name}`, JSON.stringify(value));
    } catch { /* as said */ }
  },
};
