// Requests to the service; a problem (RFC 9457) becomes an error with its detail.

import { byId, element } from "./dom.js";

const TRIES = 20;
let token = "";
try {
  token = sessionStorage.getItem("longtail token") || "";
} catch { /* a browser that keeps nothing asks again */ }

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** Addresses that need the token cannot be links: a browser sends none with them. */
const hideLinks = () => { byId("docs").hidden = Boolean(token); };
hideLinks();

/** Send a request below longtail/v1 and return its answer; waits and tries again where the service is busy. */
export async function call(path, body, { patient = false, signal } = {}) {
  for (let tries = 1; ; tries += 1) {
    const answer = await send(path, body, signal);
    if (answer.ok) return answer.json();
    if (answer.status === 401) {
      await askForToken();
      continue;
    }
    if (answer.status === 503 && patient && tries < TRIES) {
      await pause(1000 * Number(answer.headers.get("Retry-After") || 1), signal);
      continue;
    }
    const problem = await answer.json().catch(() => ({}));
    throw new Problem(answer.status, problem.detail || `the service answered with status ${answer.status}`);
  }
}

async function send(path, body, signal) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(`longtail/v1/${path}`, {
      method: body === undefined ? "GET" : "POST", headers, signal,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "the service does not answer; is it running?");
  }
}

export function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("stopped", "AbortError"));
    });
  });
}

let asking = null;

function askForToken() {
  asking ??= new Promise((resolve) => {
    const dialog = byId("token-dialog");
    byId("token").value = "";
    byId("token-wrong").hidden = !token;
    dialog.onclose = () => {
      asking = null;
      token = byId("token").value.trim();
      hideLinks();
      try {
        sessionStorage.setItem("longtail token", token);
      } catch { /* kept until the page is closed */ }
      resolve();
    };
    dialog.showModal();
  });
  return asking;
}

/** Offer a file for download. */
export function download(name, content, type) {
  const link = element("a", { href: URL.createObjectURL(new Blob([content], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
