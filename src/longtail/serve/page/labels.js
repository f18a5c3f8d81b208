// Labels as text that people take elsewhere.

/** Numbers as they are; an apostrophe before names that a spreadsheet would compute as formulas. */
const quoted = (value) => {
  const text = (typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? "'" : "") + String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

export const csvOf = (rows) => rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";

const plain = ({ uri, label, notation, probability }) => ({
  uri, label, notation: notation ?? null, probability: probability ?? null,
});

/** Labels as "labels", "uris", "csv" or "json". */
export function asText(labels, kind) {
  if (kind === "labels") return labels.map((one) => one.label).join("\n");
  if (kind === "uris") return labels.map((one) => one.uri).join("\n");
  if (kind === "json") return JSON.stringify(labels.map(plain), null, 1);
  return csvOf([["uri", "label", "notation", "probability"], ...labels.map((one) => Object.values(plain(one)))]);
}

/** Copy a text; browsers have a clipboard for pages only where the connection is secure. */
export async function copy(text) {
  if (navigator.clipboard && window.isSecureContext) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = document.createElement("textarea");
  const before = document.activeElement;
  field.value = text;
  field.style.position = "fixed";
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  before?.focus();
  if (!done) throw new Error("the browser did not allow copying");
}
