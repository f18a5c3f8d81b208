"use strict";
(() => {
  const STEP = 50;
  const { columns, rows } = JSON.parse(document.getElementById("label-data").textContent);
  const shares = new Set(["precision", "recall", "f1"]);
  const bands = ["head", "torso", "tail"];
  const names = new Intl.Collator("en", { numeric: true });  // 2 comes before 10
  const body = document.querySelector("#label-table tbody");
  const heads = [...document.querySelectorAll("#label-table thead th")];
  const search = document.getElementById("label-search");
  const count = document.getElementById("label-count");
  const more = document.getElementById("label-more");
  let shown = STEP, by = -1, rising = false, found = rows;

  const fold = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  const folded = rows.map((row) => fold(row[0]));

  const cell = (value, column) => {
    const td = document.createElement(column < 0 ? "th" : "td");
    if (column < 0) {
      td.scope = "row";
      const name = document.createElement("bdi");
      name.textContent = value;
      td.append(name);
    } else {
      td.textContent = typeof value === "number" && shares.has(columns[column - 1])
        ? (100 * value).toFixed(1) : typeof value === "number" ? value.toLocaleString("en") : value;
      if (column === 0) td.className = "words band";
    }
    return td;
  };

  const draw = () => {
    body.replaceChildren(...found.slice(0, shown).map((row) => {
      const tr = document.createElement("tr");
      tr.append(...row.map((value, i) => cell(value, i - 1)));
      return tr;
    }));
    const said = (number) => number.toLocaleString("en");
    const first = found.length > shown ? `, the first ${said(shown)} shown` : "";
    count.textContent = `${said(found.length)} of ${said(rows.length)} labels${first}`;
    more.hidden = found.length <= shown;
  };

  const compare = (a, b) => typeof a === "number" ? a - b
    : by === 1 ? bands.indexOf(a) - bands.indexOf(b) : names.compare(a, b);

  const choose = () => {
    const wanted = fold(search.value.trim());
    found = wanted ? rows.filter((_, i) => folded[i].includes(wanted)) : [...rows];
    if (by >= 0) {
      const sign = rising ? 1 : -1;
      found.sort((a, b) => sign * compare(a[by], b[by]));
    }
    draw();
  };

  heads.forEach((head, i) => head.querySelector("button").addEventListener("click", () => {
    rising = by === i ? !rising : i < 2;
    by = i;
    heads.forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    shown = STEP;
    choose();
  }));
  search.addEventListener("input", () => { shown = STEP; choose(); });
  more.addEventListener("click", () => { shown += 4 * STEP; draw(); });
  draw();
})();
