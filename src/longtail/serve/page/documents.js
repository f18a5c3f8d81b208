// Texts from files: .txt is one text, .jsonl has one object per line, .csv and .tsv one row per text.

const TEXT_FIELDS = ["text", "content", "abstract", "body", "description"];
const ID_FIELDS = ["id", "document_id", "uri", "title"];

export class FileError extends Error {}

/** Read a file: its rows, the columns that may hold texts, the one to begin with, and a note about its encoding. */
export async function readFile(file) {
  const { content, note } = decoded(new Uint8Array(await file.arrayBuffer()), file.name);
  const kind = file.name.toLowerCase().replace(/^.*\./, "");
  if (kind === "txt") return { name: file.name, columns: [], rows: [{ id: file.name, text: content }], column: "text", note };
  if (kind === "jsonl" || kind === "ndjson") return { ...chooseColumn(file.name, jsonRows(content, file.name)), note };
  if (kind === "csv" || kind === "tsv") return { ...chooseColumn(file.name, csvRows(content, file.name, kind)), note };
  throw new FileError(`${file.name}: this page reads .txt, .jsonl and .csv files`);
}

/** Spreadsheets write UTF-8, UTF-16 with a mark at its beginning, or a code page of Windows. */
function decoded(bytes, name) {
  const mark = (bytes[0] << 8) | bytes[1];
  const encoding = { 0xfffe: "utf-16le", 0xfeff: "utf-16be" }[mark] ?? "utf-8";
  try {
    return { content: new TextDecoder(encoding, { fatal: true }).decode(bytes), note: "" };
  } catch {
    const note = `${name} is not UTF-8 and was read as Windows-1252 (Western Europe). If letters are wrong, save it as UTF-8.`;
    return { content: new TextDecoder("windows-1252").decode(bytes), note };
  }
}

/** The documents of a file that was read, with the texts of one column. */
export function documentsOf({ name, rows, column }) {
  const idField = ID_FIELDS.find((field) => field !== column && rows.some((row) => row[field] !== undefined && row[field] !== ""));
  return rows.map((row, i) => ({
    id: String(row[idField] ?? (rows.length > 1 ? `${name}, ${i + 1}` : name)), text: String(row[column] ?? ""), decisions: new Map(), state: "waiting",
  }));
}

function chooseColumn(name, rows) {
  if (!rows.length) throw new FileError(`${name}: no texts in it`);
  const columns = [...new Set(rows.slice(0, 200).flatMap(Object.keys))].filter((column) =>
    rows.slice(0, 200).some((row) => typeof row[column] === "string"));
  if (!columns.length) throw new FileError(`${name}: no field with texts in it`);
  const total = (column) => rows.slice(0, 200).reduce((sum, row) => sum + String(row[column] ?? "").length, 0);
  const column = TEXT_FIELDS.find((field) => columns.includes(field)) ?? columns.reduce((a, b) => (total(b) > total(a) ? b : a));
  return { name, columns, rows, column };
}

function jsonRows(content, name) {
  return content.split("\n").flatMap((line, i) => {
    if (!line.trim()) return [];
    try {
      const row = JSON.parse(line);
      if (row === null || typeof row !== "object" || Array.isArray(row)) throw new SyntaxError("not an object");
      return [row];
    } catch (error) {
      throw new FileError(`${name}, line ${i + 1}: not a JSON object (${error.message})`);
    }
  });
}

function csvRows(content, name, kind) {
  const [head, ...rows] = cells(content, kind === "tsv" ? "\t" : separator(content));
  if (!head) throw new FileError(`${name}: it is empty`);
  return rows.filter((row) => row.length > 1 || row[0]).map((row, i) => {
    if (row.length > head.length) throw new FileError(`${name}, row ${i + 2}: ${row.length} cells, but the header has ${head.length}`);
    return Object.fromEntries(head.map((column, place) => [column.trim(), row[place] ?? ""]));
  });
}

/** Spreadsheets write commas, semicolons or tabs; the header tells. */
function separator(content) {
  const head = content.slice(0, content.search(/\r|\n|$/));
  return [",", ";", "\t"].reduce((a, b) => (head.split(b).length > head.split(a).length ? b : a));
}

/** Cells of a CSV text (RFC 4180): quoted cells may hold separators, quotes and line breaks. */
export function cells(content, comma) {
  const rows = [];
  let row = [];
  let start = 0;
  while (start < content.length) {
    let cell;
    if (content[start] === '"') {
      let end = start + 1;
      for (;;) {
        end = content.indexOf('"', end);
        if (end < 0) end = content.length;
        if (content[end + 1] !== '"') break;
        end += 2;
      }
      cell = content.slice(start + 1, end).replaceAll('""', '"');
      start = end + 1;
    } else {
      let end = start;
      while (end < content.length && content[end] !== comma && content[end] !== "\n" && content[end] !== "\r") end += 1;
      cell = content.slice(start, end);
      start = end;
    }
    row.push(cell);
    if (content[start] === comma) {
      start += 1;
      if (start < content.length) continue;
      row.push("");
    }
    if (content[start] === "\r") start += 1;
    if (content[start] === "\n") start += 1;
    rows.push(row);
    row = [];
  }
  return rows;
}
