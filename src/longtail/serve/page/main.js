// The page: models, views, files that are dropped anywhere.

import { Problem, call, pause } from "./api.js";
import { Desk, newDocument } from "./desk.js";
import { Files } from "./files.js";
import { byId, element, memory } from "./dom.js";
import { showModel } from "./model.js";

const VIEWS = { text: "Text", files: "Files", model: "Model" };
const desk = new Desk();
let hasModel;
const files = new Files(desk, new Promise((resolve) => { hasModel = resolve; }), openToRead, trouble);
let models = [];

function trouble(text) {
  byId("trouble").hidden = !text;
  byId("trouble").textContent = text;
}

function show(view) {
  for (const name of Object.keys(VIEWS)) byId(`${name}-view`).hidden = name !== view;
  for (const link of document.querySelectorAll(".top nav a")) {
    if (link.hash === `#/${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${VIEWS[view]} – longtail`;
  if (view === "model" && desk.model) showModel(desk.model, Number(byId("exponent").value));
  if (view === "files") files.showAgain();
  const focusIsGone = document.activeElement === document.body || document.activeElement.closest("[hidden]");
  if (view === "files" && focusIsGone) desk.document.row?.querySelector(".open").focus(); // where one came from
}

function route() {
  const wanted = location.hash.slice(2);
  const view = wanted in VIEWS ? wanted : "text";
  if (byId(`${view}-view`).hidden) window.scrollTo(0, 0);
  show(view);
  if (location.hash === "#text") byId("text").focus(); // the link that skips the head of the page
}

function openDocument(opened) {
  location.hash = "#/text";
  desk.openDocument(opened);
  showPlace();
}

/** Open a document that was chosen elsewhere: who works with the keyboard goes on in its text. */
function openToRead(opened) {
  openDocument(opened);
  show("text");
  byId("text").focus({ preventScroll: true });
}

function showPlace() {
  byId("place").textContent = files.placeOf(desk.document);
  byId("previous").hidden = !files.neighbour(desk.document, -1);
  byId("next").hidden = !files.neighbour(desk.document, 1);
}

function choose(model) {
  desk.setModel(model);
  memory.set("model", model.id);
  byId("language-choice").hidden = model.languages.length < 2;
  byId("language").replaceChildren(...model.languages.map((code) => element("option", { value: code }, code)));
  byId("language").value = model.language;
  files.load();
  showPlace();
  route();
}

function listen() {
  window.addEventListener("hashchange", route);
  byId("models").addEventListener("change", () => choose(models.find((one) => one.id === byId("models").value)));
  byId("language").addEventListener("change", () => desk.setLanguage(byId("language").value));
  byId("text").addEventListener("input", showPlace);
  byId("clear").addEventListener("click", showPlace);
  byId("open-files").addEventListener("click", () => byId("picker").click());
  byId("previous").addEventListener("click", () => openDocument(files.neighbour(desk.document, -1)));
  byId("next").addEventListener("click", () => openDocument(files.neighbour(desk.document, 1)));
  const carriesFiles = (event) => event.dataTransfer?.types.includes("Files");
  let depth = 0; // how many elements the pointer has entered with files
  const dragging = (change) => {
    depth = Math.max(0, depth + change);
    document.body.classList.toggle("dragging", depth > 0);
  };
  window.addEventListener("dragenter", (event) => carriesFiles(event) && dragging(1));
  window.addEventListener("dragleave", (event) => carriesFiles(event) && dragging(-1));
  window.addEventListener("dragover", (event) => carriesFiles(event) && event.preventDefault());
  window.addEventListener("drop", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault();
    dragging(-depth);
    files.take([...event.dataTransfer.files]);
  });
  window.addEventListener("unhandledrejection", (event) => {
    if (!(event.reason instanceof Problem)) return;
    event.preventDefault();
    trouble(event.reason.message);
  });
}

/** Wait until all models are loaded; what is written meanwhile stays. */
async function loaded() {
  while ((await fetch("health/ready").catch(() => null))?.status === 503) {
    trouble("The models are being loaded. You can paste a text already; suggestions follow.");
    await pause(1000);
  }
  trouble("");
}

async function start() {
  listen();
  await loaded();
  ({ models } = await call("models", undefined, { patient: true }));
  byId("models").replaceChildren(...models.map((one) => element("option", { value: one.id }, one.name)));
  const wanted = models.find((one) => one.id === memory.get("model")) ?? models.find((one) => one.reads === "texts") ?? models[0];
  byId("models").value = wanted.id;
  desk.document = newDocument(byId("text").value); // written while models were loaded, or kept by the browser
  choose(wanted);
  hasModel();
}

start();
