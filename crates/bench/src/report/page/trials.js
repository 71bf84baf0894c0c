// The table of raw trials, made when it is opened, a page of rows at a time.
const ROWS = 100;
const flatFactors = (f) => Object.entries(f).map(([k, v]) => `${k} ${typeof v === "string" ? v : JSON.stringify(v)}`).join(", ");
const load = (l) => (typeof l === "string" ? l : figure(l.pps));
const COLUMNS = [
  ["trial", (t, i) => i], ["dataplane", (t) => t.dataplane], ["for", (t) => t.purpose], ["factors", (t) => flatFactors(t.factors)],
  ["round", (t) => t.round], ["attempt", (t) => t.attempt], ["load, pps", (t) => load(t.load), (t) => (typeof t.load === "string" ? Infinity : t.load.pps)],
  ["sent", (t) => t.outcome.sent], ["lost", (t) => t.outcome.lost],
  ["received, Mpps", (t) => (t.outcome.seconds > 0 ? t.outcome.received / t.outcome.seconds / 1e6 : 0)],
  ["P50, µs", (t) => (t.outcome.latency ? t.outcome.latency.p50 / 1e3 : "")], ["P99, µs", (t) => (t.outcome.latency ? t.outcome.latency.p99 / 1e3 : "")],
  ["stolen, %", (t) => t.stolen_share * 100], ["does not count because", (t) => t.invalid.join("; ")],
];

function showTrials(into, trials) {
  const all = trials.map((t, i) => ({ t, i, words: "" }));
  let shown = all, first = 0, sorted = -1, up = true;
  const bar = element("div", undefined, { class: "bar" });
  const search = element("input", undefined, { type: "search", placeholder: "Search: firewall ndr 64 …", "aria-label": "Search the trials" });
  const only = element("label"), bad = element("input", undefined, { type: "checkbox" });
  only.append(bad, " only those that do not count");
  const count = element("span", "", { role: "status" }), back = element("button", "Back"), on = element("button", "On");
  bar.append(search, only, count, back, on);
  const scroll = element("div", undefined, { class: "scroll", tabindex: "0", role: "region", "aria-label": "Raw trials" }), table = element("table"), head = element("tr"), body = element("tbody");
  const whole = element("pre", "", { hidden: "", tabindex: "0", "aria-label": "All fields of a trial" });
  const key = (column) => (r) => (COLUMNS[column][2] ?? COLUMNS[column][1])(r.t, r.i);
  COLUMNS.forEach(([name], column) => {
    const th = element("th", undefined, { scope: "col" }), button = element("button", name, { type: "button" });
    button.addEventListener("click", () => {
      up = sorted === column ? !up : true; sorted = column;
      head.querySelectorAll("th").forEach((h) => h.removeAttribute("aria-sort"));
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
      find();
    });
    th.append(button); head.append(th);
  });
  const page = () => {
    body.replaceChildren(...shown.slice(first, first + ROWS).map((r) => {
      const tr = element("tr", undefined, r.t.invalid.length ? { class: "bad" } : {});
      COLUMNS.forEach(([, value], column) => {
        const v = value(r.t, r.i), td = element(column === 0 ? "th" : "td", column === 0 ? undefined : typeof v === "number" ? figure(v) : v);
        if (column === 0) {
          const button = element("button", String(v), { type: "button", title: "all fields" });
          button.addEventListener("click", () => { whole.hidden = false; whole.textContent = JSON.stringify({ trial: r.i, ...r.t }, null, 2); whole.focus(); });
          td.append(button);
        }
        tr.append(td);
      });
      return tr;
    }));
    count.textContent = shown.length ? `${first + 1} – ${Math.min(first + ROWS, shown.length)} of ${shown.length}` : "none";
    back.disabled = first === 0; on.disabled = first + ROWS >= shown.length;
  };
  const find = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (r) => (r.words ||= COLUMNS.map(([, v]) => v(r.t, r.i)).join(" ").toLowerCase());
    shown = all.filter((r) => (!bad.checked || r.t.invalid.length) && words.every((w) => text(r).includes(w)));
    if (sorted >= 0) {
      const value = key(sorted), sign = up ? 1 : -1;
      shown.sort((a, b) => { const x = value(a), y = value(b); return sign * (typeof x === "number" && typeof y === "number" ? x - y || 0 : String(x).localeCompare(String(y))); });
    }
    first = 0; page();
  };
  search.addEventListener("input", find); bad.addEventListener("change", find);
  back.addEventListener("click", () => { first -= ROWS; page(); }); on.addEventListener("click", () => { first += ROWS; page(); });
  const thead = element("thead"); thead.append(head); table.append(thead, body); scroll.append(table);
  into.replaceChildren(bar, scroll, whole);
  page();
}
