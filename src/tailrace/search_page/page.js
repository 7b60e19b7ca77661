// Asks the server as one types, and again each second. What comes from rows becomes text, never HTML.

const EVERY = 1000, TYPING = 120, PAUSE = 600, STEP = 20, MOST = 100;
const at = (id) => document.getElementById(id);
const [form, query, tables, left, status, hits, more, lag] =
  ["form", "query", "tables", "left", "status", "hits", "more", "lag"].map(at);

let limit = STEP;
let table = "";
let asking = null; // the request that is under way
let timer = 0;
let shown = ""; // the answer that is shown, and what it answers
let known = null; // the rows that the query found, if all were shown: others that it finds are new

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

const number = (count) => count.toLocaleString("en");
const some = (count, name) => `${number(count)} ${name}${count === 1 ? "" : "s"}`;
const say = (text, wrong) => {
  status.className = wrong ? "wrong" : "";
  if (status.textContent !== text) status.textContent = text; // a screen reader reads changes only
};

function age(seconds) {
  for (const [size, name] of [[86400, "day"], [3600, "hour"], [60, "minute"], [1, "second"]]) {
    const count = Math.floor(seconds / size);
    if (count >= 1) return `${some(count, name)} ago`;
  }
  return "just now";
}

function showTables({ all, tables: found, left_out }) {
  const counts = new Map(Object.entries(found)); // null where nothing was asked
  if (table && !counts.has(table)) counts.set(table, 0);
  const names = [...counts.keys()].sort();
  tables.hidden = names.length === 0;
  left.textContent = left_out ? `and ${some(left_out, "more table")}` : "";
  const have = [...tables.querySelectorAll("input")].map((each) => each.value);
  if (JSON.stringify(have) !== JSON.stringify(["", ...names])) {
    const focused = tables.contains(document.activeElement);
    tables.replaceChildren(tables.querySelector("legend"), ...["", ...names].map(choice), left);
    if (focused) tables.querySelector("input:checked")?.focus();
  }
  for (const each of tables.querySelectorAll(".table")) {
    const name = each.querySelector("input").value;
    const count = name ? counts.get(name) : all;
    each.querySelector(".count").textContent = count === null ? "" : number(count);
  }
}

function choice(name) {
  const label = element("label", undefined, "table");
  const input = element("input");
  Object.assign(input, { type: "radio", name: "table", value: name, checked: name === table });
  label.append(input, element("bdi", name || "all"), " ", element("span", "", "count"));
  return label;
}

function row(hit, isNew) {
  const item = element("li", undefined, isNew ? "new" : "");
  const title = element("h2");
  title.append(element("bdi", hit.table), " ");
  hit.key.forEach((value, place) => title.append(place ? ", " : "", element("bdi", value)));
  if (isNew) title.append(" ", element("span", "new", "badge"));
  if (hit.copies > 1) title.append(" ", element("span", some(hit.copies, "equal row"), "quiet"));
  const texts = element("dl");
  for (const [column, pieces] of hit.texts) {
    const text = element("dd");
    text.dir = "auto"; // as its language is written
    text.append(...pieces.map(([piece, found]) => (found ? element("mark", piece) : piece)));
    texts.append(element("dt"), text);
    text.previousSibling.append(element("bdi", column));
  }
  item.append(title, texts);
  return item;
}

const rowKey = (hit) => JSON.stringify([hit.table, hit.key]);

function show(answer, asked) {
  const { lag: seconds, ...found } = answer;
  lag.textContent = `Newest indexed change: ${seconds === null ? "not known" : age(seconds)}`;
  const text = JSON.stringify([asked, found]);
  if (text === shown) return;
  shown = text;
  showTables(found);
  hits.replaceChildren(...found.hits.map((hit) => row(hit, known !== null && !known.has(rowKey(hit)))));
  known = found.total > found.hits.length ? null : new Set(found.hits.map(rowKey));
  more.hidden = found.total <= limit || limit >= MOST;
  document.title = asked ? `${asked} - tailrace search` : "tailrace search";
  const count = Object.keys(found.tables).length + found.left_out;
  if (!asked) say(count ? `Type to search ${some(count, "table")}` : "The index has no rows yet");
  else if (found.total === 0) say("No row found");
  else {
    const rows = `${some(found.total, "row")} found`;
    say(found.hits.length < found.total ? `${rows}, the best ${found.hits.length} shown` : rows);
  }
}

async function ask() {
  clearTimeout(timer);
  asking?.abort();
  const mine = (asking = new AbortController());
  const asked = query.value.trim();
  try {
    const parameters = new URLSearchParams({ q: asked, table, limit });
    const response = await fetch(`/search?${parameters}`, { signal: mine.signal });
    const answer = await response.json();
    if (mine !== asking) return;
    if (response.ok) show(answer, asked);
    else {
      if (shown) await new Promise((done) => setTimeout(done, PAUSE)); // one may be typing still
      if (mine !== asking) return;
      shown = "";
      hits.replaceChildren();
      more.hidden = true;
      say(answer.error.charAt(0).toUpperCase() + answer.error.slice(1), true);
    }
  } catch {
    if (mine !== asking) return;
    shown = "";
    say("The server does not answer: trying again", true);
  }
  timer = setTimeout(() => (document.hidden ? undefined : ask()), EVERY);
}

function changed(wait) {
  limit = STEP;
  known = null;
  const state = new URLSearchParams();
  if (query.value.trim()) state.set("q", query.value.trim());
  if (table) state.set("table", table);
  history.replaceState(null, "", state.size ? `/?${state}` : "/");
  clearTimeout(timer);
  asking?.abort();
  asking = null; // what is under way answers another question
  timer = setTimeout(ask, wait);
}

query.addEventListener("input", () => changed(TYPING));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  changed(0);
});
tables.addEventListener("change", (event) => {
  table = event.target.value;
  changed(0);
});
more.addEventListener("click", () => {
  const first = hits.children.length;
  limit = Math.min(limit + STEP, MOST);
  known = null;
  ask().then(() => {
    const next = hits.children[first];
    if (!next) return;
    next.tabIndex = -1; // one continues to read where the new ones begin
    next.focus();
  });
});
document.addEventListener("visibilitychange", () => document.hidden || ask());

const state = new URLSearchParams(location.search);
query.value = state.get("q") ?? "";
table = state.get("table") ?? "";
ask();
