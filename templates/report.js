"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = Object.fromEntries(data.columns.map((column, index) => [column[0], index]));
  const shown = data.columns.filter((column) => column[2] !== "hidden");
  const PAGE = window.matchMedia("(max-width: 45rem)").matches ? 25 : 100;
  const WORSE = new Set(["newly wrong", "newly failing", "slower", "missing", "slower (waived)"]);
  const GOOD = new Set(["faster", "fixed"]);
  const DOUBT = new Set(["too noisy to tell", "not comparable", "not measured", "new"]);
  const body = document.querySelector("#rows tbody");
  const status = document.getElementById("status");
  const find = document.getElementById("find");
  const result = document.getElementById("result");
  const order = document.getElementById("order");
  const previous = document.getElementById("previous");
  const next = document.getElementById("next");
  const word = (row, key) => data.words[row[at[key]]];
  const haystack = data.rows.map((row) =>
    [row[at.shape], word(row, "place"), word(row, "result"), word(row, "best"), word(row, "class"), word(row, "why"), row[at.id]]
      .join(" ").toLowerCase());
  let chosen = data.rows.map((_, index) => index);
  let page = 0;
  let sort = { key: "", down: false };

  const time = (value) => value < 100 ? value.toFixed(2) : value < 1000 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
  const percent = (ratio) => {
    if (ratio >= 2) return ratio.toFixed(2) + "x as long";
    const text = ((ratio - 1) * 100).toFixed(1) + "%";
    return text === "-0.0%" || text === "0.0%" ? "0.0%" : ratio > 1 ? "+" + text : text;
  };

  function cell(row, column) {
    const [key, title, kind] = column;
    const td = document.createElement("td");
    const value = row[at[key]];
    td.dataset.label = title;
    if (kind === "word") {
      td.textContent = data.words[value];
      if (key === "result") td.className = WORSE.has(td.textContent) ? "bad" : GOOD.has(td.textContent) ? "good" : DOUBT.has(td.textContent) ? "doubt" : "";
      if (key === "why" || key === "class" || key === "place") td.classList.add("quiet");
    } else if (kind === "shape") {
      td.className = "name";
      td.textContent = value;
      td.title = row[at.id];
      td.removeAttribute("data-label");
    } else {
      td.className = value === null ? "number absent" : "number";
      td.textContent = value === null ? "–" : kind === "time" ? time(value) : kind === "count" ? value.toLocaleString("en") : kind === "speedup" ? value.toFixed(2) + "x" : percent(value);
      if (kind === "change" && row[at.low] !== null) td.title = percent(row[at.low]) + " to " + percent(row[at.high]);
    }
    return td;
  }

  function draw() {
    const first = page * PAGE;
    const lines = chosen.slice(first, first + PAGE).map((index) => {
      const tr = document.createElement("tr");
      tr.append(...shown.map((column) => cell(data.rows[index], column)));
      return tr;
    });
    body.replaceChildren(...lines);
    previous.disabled = page === 0;
    next.disabled = first + PAGE >= chosen.length;
    const told = chosen.length ? `${(first + 1).toLocaleString("en")} to ${(first + lines.length).toLocaleString("en")} of ${chosen.length.toLocaleString("en")}` : "No";
    const left = data.total - data.rows.length;
    status.textContent = `${told} rows` + (chosen.length < data.rows.length ? ` that match, of ${data.rows.length.toLocaleString("en")}` : "") +
      (left ? `; the ${left.toLocaleString("en")} least changed rows are in decision.json only` : "");
  }

  function choose() {
    const wanted = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const verdict = result.value;
    chosen = [];
    for (let index = 0; index < data.rows.length; index += 1) {
      if (verdict && word(data.rows[index], "result") !== verdict) continue;
      if (wanted.every((part) => haystack[index].includes(part))) chosen.push(index);
    }
    arrange();
  }

  function arrange() {
    const column = at[sort.key];
    if (column === undefined) chosen.sort((one, two) => one - two);
    else {
      const kind = data.columns[column][2];
      const value = (index) => kind === "word" ? data.words[data.rows[index][column]] : data.rows[index][column];
      const sign = sort.down ? -1 : 1;
      chosen.sort((one, two) => {
        const a = value(one), b = value(two);
        if (a === null || b === null) return (a === null) - (b === null) || one - two;
        return (a < b ? -sign : a > b ? sign : 0) || one - two;
      });
    }
    page = 0;
    draw();
  }

  function sortBy(key, down) {
    sort = { key, down };
    document.querySelectorAll("#rows th").forEach((th) => {
      if (th.dataset.key === key) th.setAttribute("aria-sort", down ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    order.value = key ? key + (down ? " down" : " up") : "";
    arrange();
  }

  const head = document.querySelector("#rows thead tr");
  for (const [key, title, kind] of shown) {
    const th = document.createElement("th");
    const button = document.createElement("button");
    const numeric = kind !== "word" && kind !== "shape";
    th.scope = "col";
    th.dataset.key = key;
    if (numeric) th.className = "number";
    button.type = "button";
    button.textContent = title;
    button.addEventListener("click", () => sortBy(key, sort.key === key ? !sort.down : numeric && key !== "speedup"));
    th.append(button);
    head.append(th);
    for (const way of ["up", "down"]) {
      const option = new Option(`${title}, ${numeric ? (way === "up" ? "lowest" : "highest") : (way === "up" ? "A" : "Z")} first`, `${key} ${way}`);
      order.append(option);
    }
  }
  const seen = new Map();
  for (const row of data.rows) seen.set(word(row, "result"), (seen.get(word(row, "result")) || 0) + 1);
  for (const [name, count] of seen) result.append(new Option(`${name} (${count.toLocaleString("en")})`, name));
  let waiting = 0;
  find.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(choose, 120); });
  result.addEventListener("change", choose);
  order.addEventListener("change", () => { const [key, way] = order.value.split(" "); sortBy(key || "", way === "down"); });
  previous.addEventListener("click", () => { page -= 1; draw(); });
  next.addEventListener("click", () => { page += 1; draw(); });
  document.getElementById("table-tools").hidden = false;
  choose();
}());
