// What the pages do beyond links and forms. Every page works without it: answers then open as pages of their own.
"use strict";

const wide = () => window.matchMedia("(min-width: 981px)").matches;
const pane = () => document.getElementById("pane");
const rowLinks = () => Array.from(document.querySelectorAll("[data-row]"));
let chosen = -1;

async function fetched(address, options = {}) {
  const response = await fetch(address, { credentials: "same-origin", ...options });
  return { response, page: new DOMParser().parseFromString(await response.text(), "text/html") };
}

// --- an answer beside the list

async function openBeside(link, { remember = true } = {}) {
  const address = new URL(link.href, location.href);
  address.searchParams.set("part", "1");
  mark(link);
  pane().setAttribute("aria-busy", "true");
  if (!pane().querySelector("article")) say("Loading the answer …");
  const answer = await answerOf(address);
  if (rowLinks()[chosen] !== link) return;
  pane().removeAttribute("aria-busy");
  if (!answer) {
    say("The viewer does not answer. Check that gage view is running, then reload this page.");
    return;
  }
  pane().replaceChildren(answer);
  linkTimes(pane());
  pane().scrollTop = 0;
  if (answer.dataset.title) document.title = answer.dataset.title;
  const here = new URL(location.href);
  here.searchParams.set("open", `${rowId(link)}`);
  if (remember && here.href !== location.href) history.pushState({ open: rowId(link) }, "", here);
}

async function answerOf(address) {
  try {
    const { page } = await fetched(address);
    return document.adoptNode(page.querySelector("article.answer, main"));
  } catch (error) {
    return null;
  }
}

function say(text) {
  pane().replaceChildren(sentence(text, "soft empty"));
}

function sentence(text, className) {
  const line = document.createElement("p");
  line.className = className;
  line.setAttribute("role", "status");
  line.textContent = text;
  return line;
}

function rowId(link) {
  const given = new URL(link.href, location.href).searchParams;
  return JSON.stringify([given.get("id"), given.get("rep") || "0"]);
}

function mark(link) {
  for (const row of document.querySelectorAll("tr.on")) row.classList.remove("on");
  const row = link.closest("tr");
  if (row) row.classList.add("on");
  chosen = rowLinks().indexOf(link);
  (row || link).scrollIntoView({ block: "nearest" });
}

function restore() {
  const wanted = new URL(location.href).searchParams.get("open");
  const links = rowLinks();
  if (!pane() || !wide()) return;
  const link = links.find((one) => rowId(one) === wanted) || (wanted ? null : links[0]);
  if (link) openBeside(link, { remember: false });
  else if (links.length) say("Choose an answer to see what was asked, what came back and why it got its score.");
}

function follow(link) {
  if (pane() && wide()) openBeside(link);
  else location.assign(link.href);
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const row = event.target.closest("table.list tbody tr");
  const link = row && row.querySelector("[data-row]");
  if (!link || !pane() || !wide()) return;
  event.preventDefault();
  openBeside(link);
});
window.addEventListener("popstate", () => { if (pane()) restore(); });

// --- players: a click on a waveform, or on a time in a text next to a player, plays from there

const TIME = /\b(?:(?:(\d{1,2}):)?(\d{1,2}):(\d{2}(?:\.\d+)?)|(\d+(?:\.\d+)?) ?s(?:ec(?:onds?)?)?)\b/g;

function linkTimes(root) {
  if (!root.querySelector("audio, video")) return;
  for (const said of root.querySelectorAll(".said:not([data-timed])")) {
    said.dataset.timed = "";
    const walker = document.createTreeWalker(said, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts) {
      // From the last one, so that the places of the others stay.
      for (const match of [...text.data.matchAll(TIME)].reverse()) {
        const shown = text.splitText(match.index);
        shown.splitText(match[0].length);
        const button = document.createElement("button");
        button.type = "button";
        button.className = "time";
        button.dataset.time = match[4] || Number(match[1] || 0) * 3600 + Number(match[2]) * 60 + Number(match[3]);
        shown.replaceWith(button);
        button.append(shown);
      }
    }
  }
}

function seek(player, at) {
  const go = () => { player.currentTime = at(player.duration); player.play().catch(() => {}); };
  if (player.readyState) { go(); return; }
  player.addEventListener("loadedmetadata", go, { once: true });
  player.load();
}

document.addEventListener("click", (event) => {
  if (event.target.matches(".wave")) {
    const box = event.target.getBoundingClientRect();
    const share = (event.clientX - box.left) / box.width;
    seek(event.target.previousElementSibling, (seconds) => seconds * share);
  } else if (event.target.matches(".time")) {
    const player = event.target.closest("article, main").querySelector("audio, video");
    if (player) seek(player, () => Number(event.target.dataset.time));
  }
});
// A recording that cannot be decoded has no waveform.
document.addEventListener("error", (event) => { if (event.target.matches && event.target.matches(".wave")) event.target.remove(); }, true);

// --- steps of an answer, a page of them at a time

let stepWanted = 0;

async function toStep(step, otherwise) {
  stepWanted = step;
  const section = document.querySelector("[data-steps]");
  if (!document.getElementById(`step-${step}`)) {
    try {
      const address = new URL(section.dataset.steps, location.href);
      address.searchParams.set("step", step);
      const { page } = await fetched(address);
      const fresh = document.adoptNode(page.querySelector("[data-steps]"));
      if (stepWanted !== step || !section.isConnected) return;
      section.replaceWith(fresh);
    } catch (error) {
      otherwise();
      return;
    }
  }
  for (const marked of document.querySelectorAll(".step.on")) marked.classList.remove("on");
  const target = document.getElementById(`step-${step}`);
  if (!target) return;
  target.classList.add("on");
  if (!pane()) {
    // The address of the page names the step, also when the page of a running run is fetched again.
    const here = new URL(location.href);
    here.searchParams.set("step", step);
    history.replaceState(history.state, "", here);
  }
  // scrollIntoView would also move the boxes around the pane.
  const box = target.closest(".right") || document.scrollingElement;
  const top = box === document.scrollingElement ? 0 : box.getBoundingClientRect().top;
  box.scrollTop += target.getBoundingClientRect().top - top - parseFloat(getComputedStyle(target).scrollMarginTop);
  target.focus({ preventScroll: true });
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-step]");
  if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  toStep(Number(link.dataset.step), () => location.assign(link.href));
});
document.addEventListener("submit", (event) => {
  if (!event.target.matches(".to-step")) return;
  event.preventDefault();
  const step = Number(event.target.elements.step.value);
  if (step) toStep(step, () => event.target.submit());
});

// --- keys

function move(step) {
  const links = rowLinks();
  if (!links.length) {
    const link = document.querySelector(step > 0 ? "[data-next]" : "[data-prev]");
    if (link && link.closest(".label-page")) toAnswer(link.href);
    else if (link) location.assign(link.href);
    return;
  }
  const next = Math.min(Math.max(chosen + step, 0), links.length - 1);
  if (next === chosen && pane()) {
    const page = document.querySelector(step > 0 ? ".foot [rel=next]" : ".foot [rel=prev]");
    if (page) location.assign(page.href);
    return;
  }
  if (pane() && wide()) openBeside(links[next]);
  else { mark(links[next]); links[next].focus(); }
}

document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.target.matches("input, textarea, select")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const keys = {
    j: () => move(1), k: () => move(-1),
    Enter: () => { const link = rowLinks()[chosen]; if (link && event.target === document.body) location.assign(link.href); },
    "/": () => { const box = document.querySelector("[data-key='/']"); if (box) { box.focus(); box.select(); event.preventDefault(); } },
    n: () => { const box = document.querySelector("[data-key='n']"); if (box) { box.focus(); event.preventDefault(); } },
    u: () => { const link = document.querySelector("[data-list]"); if (link && !pane()) location.assign(link.href); },
  };
  if (document.querySelector("[data-press]") && !event.repeat) press(event.key);
  if (keys[event.key]) keys[event.key]();
});

// --- labels: the next answer takes the place of this one, so that no key is lost while a page loads

// A label is given once: the next answer takes the next key.
let pressed = false;

function press(key) {
  const button = Array.from(document.querySelectorAll("[data-press]")).find((one) => one.dataset.press === key);
  if (button && !pressed) button.click();
}

async function toAnswer(address, options) {
  if (pressed) return;
  pressed = true;
  try {
    const { response, page } = await fetched(address, options);
    document.body.replaceChildren(...[...page.body.childNodes].map((node) => document.adoptNode(node)));
    document.title = page.title;
    history.replaceState(null, "", response.url);
    window.scrollTo(0, 0);
    const field = document.querySelector("[autofocus]");
    if (field) field.focus();
  } catch (error) {
    for (const earlier of document.querySelectorAll("main > [role=status]")) earlier.remove();
    document.getElementById("main").prepend(sentence("The viewer does not answer. Check that gage view is running, then try again.", "loss"));
  }
  pressed = false;
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches(".label-page form")) return;
  event.preventDefault();
  const body = new URLSearchParams(new FormData(event.target, event.submitter));
  toAnswer(event.target.action, { method: "POST", body });
});

// --- runs under way: the page is fetched again and its content replaced

function busy() {
  const active = document.activeElement;
  return document.hidden || (active && active.matches("input, textarea, select")) || String(window.getSelection());
}

async function refresh() {
  if (!busy()) {
    try {
      const { response, page } = await fetched(location.href);
      const fresh = page.getElementById("main");
      if (response.ok && fresh) {
        const target = document.getElementById("main");
        const shown = pane() && pane().firstElementChild;
        const opened = chosen < 0 ? null : rowId(rowLinks()[chosen]);
        const open = new Set(Array.from(target.querySelectorAll("details[open] > summary"), (one) => one.textContent));
        const ticked = Array.from(target.querySelectorAll(":checked"), (box) => box.value);
        // A copy of the list: adopting a node takes it out of fresh.childNodes.
        target.replaceChildren(...[...fresh.childNodes].map((node) => document.adoptNode(node)));
        for (const summary of target.querySelectorAll("summary")) if (open.has(summary.textContent)) summary.parentElement.open = true;
        for (const box of target.querySelectorAll("[type=checkbox]")) box.checked = ticked.includes(box.value);
        if (shown && pane()) pane().replaceChildren(shown);
        linkTimes(target);
        const link = rowLinks().find((one) => rowId(one) === opened);
        if (link) mark(link);
        if (!page.body.hasAttribute("data-live")) return;
      }
    } catch (error) { console.warn("gage view does not answer", error); }
  }
  setTimeout(refresh, 2000);
}

linkTimes(document.body);
restore();
if (document.body.hasAttribute("data-live")) setTimeout(refresh, 2000);
