// The second view: many texts from files, with progress, a table and a download.

import { Problem, call, download } from "./api.js";
import { chosenOf } from "./chosen.js";
import { FileError, documentsOf, readFile } from "./documents.js";
import { byId, counted, element, number, percent } from "./dom.js";
import { csvOf } from "./labels.js";

const SHOWN = 300; // rows of the table; the download has all
const CHARACTERS = 1_000_000; // per request
const AT_ONCE = 2; // requests

export class Files {
  /** `desk` suggests, once `ready`; `open(document)` shows one there; `trouble(text)` tells what went wrong. */
  constructor(desk, ready, open, trouble) {
    Object.assign(this, { desk, ready, open, trouble, sources: [], documents: [], stopped: null });
    byId("picker").addEventListener("change", () => {
      this.take([...byId("picker").files]);
      byId("picker").value = "";
    });
    byId("stop").addEventListener("click", () => this.stopped?.abort());
    byId("column").addEventListener("change", () => {
      for (const source of this.sources) if (source.columns.includes(byId("column").value)) source.column = byId("column").value;
      this.load();
    });
    byId("again").addEventListener("click", () => this.begin());
    for (const button of document.querySelectorAll("[data-download]")) {
      button.addEventListener("click", () => this.download(button.dataset.download));
    }
  }

  /** Read files and suggest labels for their texts; a single .txt is for the first view. */
  async take(files) {
    await this.ready;
    this.trouble("");
    try {
      const sources = await Promise.all(files.map(readFile));
      this.trouble(sources.map((source) => source.note).filter(Boolean).join(" "));
      if (sources.length === 1 && files[0].name.toLowerCase().endsWith(".txt")) {
        const [made] = documentsOf(sources[0]);
        this.open(made);
        return;
      }
      this.sources = sources;
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      this.trouble(error.message);
      return;
    }
    location.hash = "#/files";
    this.showColumns();
    await this.load();
  }

  showColumns() {
    const columns = [...new Set(this.sources.flatMap((source) => source.columns))];
    byId("column-choice").hidden = columns.length < 2;
    byId("column").replaceChildren(...columns.map((column) => element("option", { value: column }, column)));
    byId("column").value = this.sources.find((source) => source.columns.length)?.column ?? "";
  }

  /** Take the texts of what was read; nobody has decided about them yet. */
  async load() {
    this.documents = this.sources.flatMap(documentsOf);
    if (this.documents.length) await this.begin();
  }

  /** Suggest labels for all texts, by the model and the dials of now; decisions stay. */
  async begin() {
    this.stopped?.abort();
    const stopped = new AbortController();
    const { documents } = this;
    for (const one of documents) Object.assign(one, { state: "waiting", found: undefined });
    Object.assign(this, { stopped, done: 0, wish: this.desk.wish() });
    byId("work").hidden = false;
    this.showTable();
    this.showProgress();
    const batches = inBatches(documents, this.desk.model.limits);
    const worker = async () => {
      for (let batch = batches.shift(); batch && !stopped.signal.aborted; batch = batches.shift()) {
        await this.predict(batch, this.wish, stopped.signal);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    if (this.stopped !== stopped) return;
    this.stopped = null;
    this.showProgress(stopped.signal.aborted ? "Stopped: " : "");
    byId("finished").textContent = byId("progress-text").textContent;
  }

  async predict(batch, wish, signal) {
    const { model } = this.desk;
    try {
      const { results } = await call(`models/${model.id}/suggest`, { texts: batch.map((one) => one.text), ...wish }, { patient: true, signal });
      batch.forEach((one, i) => Object.assign(one, { found: results[i], state: "done" }));
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!(error instanceof Problem)) throw error;
      if (batch.length > 1 && error.status !== 0) { // one text must not fail for another
        for (const one of batch) await this.predict([one], wish, signal);
        return;
      }
      for (const one of batch) Object.assign(one, { state: "failed", error: error.message });
    }
    if (signal.aborted) return;
    this.done += batch.length;
    batch.forEach((one) => this.showRow(one));
    this.showProgress();
  }

  showProgress(before = "") {
    const failed = this.documents.filter((one) => one.state === "failed").length;
    const total = this.documents.length;
    byId("progress").max = total;
    byId("progress").value = this.done;
    byId("progress-text").textContent = `${before}${number(this.done)} of ${counted(total, "text")}${failed ? `, ${number(failed)} failed` : ""}`;
    const { exponent, limit, threshold } = this.wish;
    byId("dials").textContent = `At most ${counted(limit, "label")} per text, each of at least ${(100 * threshold).toFixed(0)}\u00a0%, slider at ${exponent.toFixed(2)}.`;
    byId("stop").hidden = !this.stopped;
    byId("again").hidden = Boolean(this.stopped);
    for (const button of document.querySelectorAll("[data-download]")) button.disabled = !this.done;
  }

  /** Show what was decided in the first view meanwhile. */
  showAgain() {
    this.documents.forEach((one) => this.showRow(one));
  }

  showTable() {
    const rows = this.documents.slice(0, SHOWN).map((one) => {
      one.row = element("tr", { role: "row" }, ...Array.from({ length: 3 }, () => element("td", { role: "cell" })));
      return one.row;
    });
    byId("documents").tBodies[0].replaceChildren(...rows);
    this.documents.slice(0, SHOWN).forEach((one) => this.showRow(one));
    const hidden = this.documents.length - rows.length;
    byId("more").textContent = hidden > 0 ? `The table shows the first ${number(SHOWN)} texts; the download has all.` : "";
  }

  showRow(one) {
    if (!one.row) return;
    const [text, labels, state] = one.row.cells;
    const start = one.text.trim().slice(0, 140);
    text.replaceChildren(
      element("button", { type: "button", className: "open", onclick: () => this.open(one) }, one.id.slice(0, 120)),
      element("small", {}, start.length < one.text.trim().length ? `${start}…` : start),
    );
    const shown = labelsOf(one);
    labels.replaceChildren(...shown.flatMap((label, i) => [
      i ? ", " : "", label.label, label.probability === undefined ? "" : element("span", { className: "quiet" }, ` ${percent(label.probability)}`),
    ]));
    state.textContent = one.decisions.size ? "reviewed" : one.state === "failed" ? one.error : one.state === "done" && !shown.length ? "no label" : one.state;
    state.className = one.state === "failed" ? "failed" : "";
  }

  /** The document before or after another. */
  neighbour(one, step) {
    const place = this.documents.indexOf(one);
    return place < 0 ? undefined : this.documents[place + step];
  }

  placeOf(one) {
    const place = this.documents.indexOf(one);
    return place < 0 ? "" : `${one.id} (${number(place + 1)} of ${number(this.documents.length)})`;
  }

  download(kind) {
    const finished = this.documents.filter((one) => one.state === "done" || one.decisions.size);
    if (kind === "jsonl") {
      const lines = finished.map((one) => JSON.stringify({
        id: one.id, text: one.text, labels: labelsOf(one).map((label) => label.uri), reviewed: one.decisions.size > 0,
        suggestions: (one.found ?? []).map(({ uri, label, probability }) => ({ uri, label, probability })),
      }));
      download("labels.jsonl", `${lines.join("\n")}\n`, "application/x-ndjson");
      return;
    }
    const rows = finished.flatMap((one) => labelsOf(one).map((label, i) =>
      [one.id, i + 1, label.uri, label.label, label.probability, one.decisions.size > 0]));
    download("labels.csv", csvOf([["document", "rank", "uri", "label", "probability", "reviewed"], ...rows]), "text/csv");
  }
}

/** What a person chose; what was suggested where nobody has looked. */
function labelsOf(one) {
  return one.decisions.size ? chosenOf(one.decisions) : one.found ?? [];
}

function inBatches(documents, limits) {
  const batches = [];
  let size = 0;
  for (const one of documents) {
    if (!batches.length || batches.at(-1).length >= limits.texts || size + one.text.length > CHARACTERS) {
      batches.push([]);
      size = 0;
    }
    batches.at(-1).push(one);
    size += one.text.length;
  }
  return batches;
}
