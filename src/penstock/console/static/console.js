// What the server cannot do alone: the one live stream of a tab, the messages of a search, a queue's records under the
// pointer, and keys.
"use strict";

const main = document.getElementById("main");
const pulse = document.getElementById("pulse");
const live = document.getElementById("live");

// A notice belongs to one visit: a reload shows the page without it.
const here = new URL(location.href);
if (here.searchParams.has("notice")) {
  here.searchParams.delete("notice");
  history.replaceState(null, "", here);
}

// The live part. A browser allows six connections per origin, so a tab has one stream, and none while nobody looks.
let source = null;
let waiting = null; // to listen again
const lost = document.getElementById("lost");
let lostAt = null;

function listen() {
  clearTimeout(waiting);
  const address = main.dataset.live;
  if (!address || source || document.hidden) return;
  source = new EventSource(address);
  source.addEventListener("live", (event) => {
    const selection = document.getSelection();
    if (selection && !selection.isCollapsed && live.contains(selection.anchorNode)) {
      say("on", "Live, and waiting while text is selected");
      return;
    }
    morph(JSON.parse(event.data));
    say("on", "Live: the page follows the cluster");
  });
  source.addEventListener("failed", (event) => { say("lost", JSON.parse(event.data)); again(); });
  source.addEventListener("over", () => { stop(); location.reload(); }); // logged out
  source.addEventListener("error", () => {
    say("lost", "The console does not answer");
    if (source && source.readyState === EventSource.CLOSED) { loginIfNeeded(); again(); } // a browser gives up on a refusal
  });
}

// Numbers that stand still must not look as if they moved: after a moment the page says so, until it is live again.
function say(state, words) {
  pulse.className = "pulse " + state;
  pulse.title = words;
  pulse.textContent = state === "lost" ? "not live" : "live";
  if (state !== "lost") lostAt = null;
  else lostAt = lostAt || new Date();
  lost.hidden = !lostAt || new Date() - lostAt < 2000;
  if (!lost.hidden) lost.textContent = `Not updated since ${lostAt.toISOString().slice(11, 19)} UTC. ${words.replace(/[^.]$/, "$&.")} Updates resume by themselves.`;
}

function again() {
  stop();
  waiting = setTimeout(listen, 3000);
}

// Elements that stay the same are kept, so that focus, scroll positions and what is under the pointer survive.
function morph(html) {
  Idiomorph.morph(live, html, {
    morphStyle: "innerHTML",
    ignoreActiveValue: true,
    callbacks: {
      beforeNodeMorphed: (old, fresh) => {
        if (old.matches && old.matches(".strip[data-records]") && fresh.id === old.id) return morphStrip(old, fresh);
        return !(old.dataset && "keep" in old.dataset) && !old.isEqualNode(fresh);
      },
    },
  });
  showPointed();
}

// A strip may have thousands of runs, whose words change each second: what is compared in general would take a second.
function morphStrip(old, fresh) {
  const isSame = (a, b) => a.className === b.className && a.children.length === b.children.length && a.textContent === b.textContent;
  let at = old.firstElementChild;
  const drop = () => { const gone = at; at = at.nextElementSibling; gone.remove(); };
  for (const run of [...fresh.children]) {
    while (at && +at.dataset.first < +run.dataset.first) drop();
    if (!at || at.dataset.first !== run.dataset.first) old.insertBefore(run, at);
    else if (isSame(at, run)) {
      if (at.dataset.words !== run.dataset.words) at.dataset.words = run.dataset.words;
      at = at.nextElementSibling;
    } else {
      const next = at.nextElementSibling;
      at.replaceWith(run);
      at = next;
    }
  }
  while (at) drop();
  return false;
}

// A stream that is refused may mean that nobody is logged in any more: then the page leads to the login.
function loginIfNeeded() {
  fetch(location.href, { method: "HEAD", redirect: "manual" }).then((answer) => { if (answer.type === "opaqueredirect") location.reload(); }, () => {});
}

function stop() {
  if (source) source.close();
  source = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? stop() : listen()));
window.addEventListener("pagehide", stop);

// The records of a queue: the one under the pointer, or chosen by the arrow keys, is described below its strip.
let pointed = null; // the id of a strip, and an offset

const runOf = (strip, offset) => [...strip.children].find((run) => offset >= +run.dataset.first && offset < +run.dataset.first + run.children.length);

function showPointed() {
  for (const cell of document.querySelectorAll(".strip i.here")) cell.classList.remove("here");
  const strip = pointed && document.getElementById(pointed.strip);
  const run = strip && runOf(strip, pointed.offset);
  for (const line of document.querySelectorAll(".pointed")) line.hidden = !run || line.dataset.strip !== pointed.strip;
  if (!run) return;
  run.children[pointed.offset - run.dataset.first].classList.add("here");
  const line = document.querySelector(`.pointed[data-strip="${CSS.escape(strip.id)}"]`);
  const link = line.querySelector("a");
  link.textContent = `offset ${pointed.offset.toLocaleString("en")}`;
  link.href = strip.dataset.records + pointed.offset;
  line.querySelector("span").textContent = run.dataset.words;
}

function offsetOf(cell) {
  return +cell.parentElement.dataset.first + [...cell.parentElement.children].indexOf(cell);
}

function pointAt(event) {
  const cell = event.target.closest && event.target.closest(".strip[data-records] i");
  if (!cell) return null;
  pointed = { strip: cell.closest(".strip").id, offset: offsetOf(cell) };
  showPointed();
  return cell;
}

document.addEventListener("pointerover", pointAt);
document.addEventListener("click", (event) => {
  const cell = pointAt(event);
  if (cell && event.pointerType !== "touch") location.href = cell.closest(".strip").dataset.records + pointed.offset;
});

function moveInStrip(event) {
  const strip = event.target.closest(".strip[data-records]");
  if (!strip || !strip.children.length) return false;
  const first = +strip.firstElementChild.dataset.first;
  const last = +strip.lastElementChild.dataset.first + strip.lastElementChild.children.length - 1;
  const at = pointed && pointed.strip === strip.id ? pointed.offset : null;
  const next = { ArrowRight: at === null ? first : at + 1, ArrowLeft: at === null ? last : at - 1, Home: first, End: last }[event.key];
  if (event.key === "Enter" && at !== null) location.href = strip.dataset.records + at;
  else if (next === undefined) return false;
  else {
    // An offset without a record is passed over.
    const step = next < (at ?? 0) ? -1 : 1;
    let offset = Math.min(Math.max(next, first), last);
    while (!runOf(strip, offset)) offset += step;
    pointed = { strip: strip.id, offset };
    showPointed();
  }
  event.preventDefault();
  return true;
}

// The messages of a topic: rows arrive as HTML that the server has escaped. A page keeps so many: a search the first,
// which the server sees to, live messages the newest. A hidden tab lets its stream go, and goes on from there.
const search = document.getElementById("search");
if (search) {
  const rows = document.getElementById("rows");
  const keep = Number(search.dataset.keep);
  const isLive = search.dataset.live === "yes";
  const bar = document.getElementById("progress");
  const words = document.getElementById("progress-text");
  const button = document.getElementById("stop");
  const further = document.getElementById("further");
  let resume = "";
  let hasMore = false;
  let asksMore = false;
  let state = "searching";
  let stream = null;
  const letGo = () => { if (stream) stream.close(); stream = null; };
  const finish = (how) => { letGo(); state = how; button.hidden = true; bar.hidden = true; search.dataset.state = how; };
  const begin = () => {
    if (stream || document.hidden || state !== "searching") return;
    stream = new EventSource(search.dataset.stream + (resume ? "&resume=" + encodeURIComponent(resume) : "") + (asksMore ? "&more=1" : ""));
    stream.addEventListener("rows", (event) => {
      rows.insertAdjacentHTML(isLive ? "afterbegin" : "beforeend", JSON.parse(event.data));
      while (rows.children.length > keep) (isLive ? rows.lastElementChild : rows.firstElementChild).remove();
    });
    stream.addEventListener("progress", (event) => {
      const told = JSON.parse(event.data);
      words.textContent = told.text;
      resume = told.resume;
      hasMore = told.more;
      if (told.total) { bar.max = told.total; bar.value = told.done; bar.hidden = false; }
    });
    stream.addEventListener("failed", (event) => { words.textContent = JSON.parse(event.data); words.className = "failure"; finish("failed"); });
    stream.addEventListener("end", () => { finish("done"); further.hidden = !hasMore; if (!rows.children.length) document.getElementById("none").hidden = false; });
    stream.addEventListener("error", () => { if (stream) { words.textContent += " · the connection to the console is lost"; finish("failed"); } });
  };
  further.firstElementChild.addEventListener("click", () => {
    further.hidden = asksMore = true;
    button.hidden = false;
    state = search.dataset.state = "searching";
    begin();
  });
  button.addEventListener("click", () => { words.textContent += " · stopped"; finish("stopped"); });
  document.addEventListener("visibilitychange", () => (document.hidden ? letGo() : begin()));
  window.addEventListener("pagehide", letGo);
  begin();
  rows.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row && !event.target.closest("a, button") && document.getSelection().isCollapsed) toggle(row);
    else if (event.target.closest("button")) toggle(row);
  });
  const toggle = (row) => row.querySelector("button").setAttribute("aria-expanded", String(row.classList.toggle("open")));
}

// A field that only some choices of a form need is there with them alone.
for (const field of document.querySelectorAll("[data-only-with]")) {
  const [name, ...values] = field.dataset.onlyWith.split(" ");
  const choice = field.closest("form").elements[name];
  const show = () => { field.hidden = !values.includes(choice.value); };
  choice.addEventListener("change", show);
  show();
}

// A command can be copied, where the browser allows it.
if (navigator.clipboard) {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) navigator.clipboard.writeText(button.dataset.copy).then(() => { button.textContent = "Copied"; });
  });
  document.documentElement.classList.add("can-copy");
}

// Keys: g and a letter goes to a page, / to the search field, ? lists them.
let wentAt = 0;
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (moveInStrip(event)) return;
  if (event.key === "/") {
    const field = document.querySelector("[data-focus='/']");
    if (field) { field.focus(); event.preventDefault(); }
  } else if (event.key === "?") {
    const keys = document.getElementById("keys");
    if (keys && !keys.open) keys.showModal();
  } else if (Date.now() - wentAt < 1500) {
    const link = document.querySelector(`nav a[data-key='${CSS.escape(event.key)}']`);
    if (link) link.click();
    wentAt = 0;
  } else if (event.key === "g") {
    wentAt = Date.now();
  }
});

listen();
