// What htmx does not do: the one live stream of a tab, the messages of a search, and keys.
"use strict";

const main = document.getElementById("main");
const pulse = document.getElementById("pulse");

// A notice belongs to one visit: a reload shows the page without it.
const here = new URL(location.href);
if (here.searchParams.has("notice")) {
  here.searchParams.delete("notice");
  history.replaceState(null, "", here);
}

// A browser allows six connections per origin, so a tab has one stream, and none while nobody looks.
let source = null;

function listen() {
  const address = main.dataset.live;
  if (!address || source || document.hidden) return;
  source = new EventSource(address);
  source.addEventListener("live", (event) => {
    const selection = document.getSelection();
    const live = document.getElementById("live");
    if (selection && !selection.isCollapsed && live.contains(selection.anchorNode)) return; // somebody copies
    const held = document.activeElement && live.contains(document.activeElement) ? document.activeElement.id : "";
    live.innerHTML = JSON.parse(event.data);
    if (held && document.getElementById(held)) document.getElementById(held).focus();
    pulse.className = "pulse on";
  });
  source.addEventListener("failed", (event) => { pulse.className = "pulse lost"; pulse.title = JSON.parse(event.data); stop(); setTimeout(listen, 3000); });
  source.addEventListener("over", () => { stop(); location.reload(); }); // logged out
  source.addEventListener("error", () => {
    pulse.className = "pulse lost";
    if (source && source.readyState === EventSource.CLOSED) askForLogin();
  });
}

// A stream that is refused may mean that nobody is logged in any more: then the page leads to the login.
function askForLogin() {
  fetch(location.href, { method: "HEAD", redirect: "manual" }).then((answer) => { if (answer.type === "opaqueredirect") location.reload(); }, () => {});
}

function stop() {
  if (source) source.close();
  source = null;
}

document.addEventListener("visibilitychange", () => (document.hidden ? stop() : listen()));
window.addEventListener("pagehide", stop);
listen();

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
  let resume = "";
  let state = "searching";
  let stream = null;
  const let_go = () => { if (stream) stream.close(); stream = null; };
  const finish = (how) => { let_go(); state = how; button.hidden = true; bar.hidden = true; search.dataset.state = how; };
  const begin = () => {
    if (stream || document.hidden || state !== "searching") return;
    stream = new EventSource(search.dataset.stream + (resume ? "&resume=" + encodeURIComponent(resume) : ""));
    stream.addEventListener("rows", (event) => {
      rows.insertAdjacentHTML(isLive ? "afterbegin" : "beforeend", JSON.parse(event.data));
      while (rows.children.length > keep) rows.lastElementChild.remove();
    });
    stream.addEventListener("progress", (event) => {
      const told = JSON.parse(event.data);
      words.textContent = told.text;
      resume = told.resume;
      if (told.total) { bar.max = told.total; bar.value = told.done; bar.hidden = false; }
    });
    stream.addEventListener("failed", (event) => { words.textContent = JSON.parse(event.data); words.className = "failure"; finish("failed"); });
    stream.addEventListener("end", () => { finish("done"); if (!rows.children.length) document.getElementById("none").hidden = false; });
    stream.addEventListener("error", () => { if (stream) { words.textContent += " · the console has ended the stream"; finish("failed"); } });
  };
  button.addEventListener("click", () => { words.textContent += " · stopped"; finish("stopped"); });
  document.addEventListener("visibilitychange", () => (document.hidden ? let_go() : begin()));
  window.addEventListener("pagehide", let_go);
  begin();
  rows.addEventListener("click", (event) => {
    const row = event.target.closest("tr");
    if (row && !event.target.closest("a") && document.getSelection().isCollapsed) row.classList.toggle("open");
  });
}

// Keys: g and a letter goes to a page, / to the search field.
let gone = 0;
document.addEventListener("keydown", (event) => {
  if (event.target.closest("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const field = document.querySelector("[data-focus='/']");
    if (field) { field.focus(); event.preventDefault(); }
  } else if (event.key === "g") {
    gone = Date.now();
  } else if (Date.now() - gone < 1500) {
    const link = document.querySelector(`nav a[data-key='${CSS.escape(event.key)}']`);
    if (link) link.click();
    gone = 0;
  }
});
