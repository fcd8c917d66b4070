// The page: its panels in sections, one stream of news, keyboard, theme. Everything shown can be asked for at /api.

import { forgetAnchor, repaintCharts } from "/static/charts.js";
import { h, openDetails } from "/static/dom.js";
import { clock, duration, moment } from "/static/format.js";
import { Live } from "/static/live.js";
import { allowAcknowledging } from "/static/panels/acknowledge.js";
import { activityPanel } from "/static/panels/activity.js";
import { agreementPanel, findingsPanel, objectsPanel, quarantinePanel } from "/static/panels/audit.js";
import { exportsPanel } from "/static/panels/exports.js";
import { filesPanel, uploadersPanel } from "/static/panels/files.js";
import { histogramsPanel } from "/static/panels/histograms.js";
import { latencyPanel } from "/static/panels/latency.js";
import { leadershipPanel } from "/static/panels/leadership.js";
import { lookPanel, searchField } from "/static/panels/look.js";
import { marksPanel } from "/static/panels/marks.js";
import { migrationsPanel } from "/static/panels/migrations.js";
import { monitorPanel } from "/static/panels/monitor.js";
import { Now } from "/static/panels/now.js";
import { partitionsPanel, topicsPanel } from "/static/panels/partitions.js";
import { snapshotsPanel } from "/static/panels/snapshots.js";
import * as state from "/static/state.js";

const at = (id) => document.getElementById(id);
const now = new Now();
const problems = h("ul", { class: "problems", id: "problems", hidden: true, "aria-label": "What is wrong" });

const start = h("section", { class: "card start", id: "start", hidden: true, "aria-labelledby": "start-title" });
const sections = [
  { id: "now", title: "Now", panels: [activityPanel(), latencyPanel(), marksPanel()], before: [problems, start, now.element] },
  { id: "audit", title: "Audit", panels: [findingsPanel(), agreementPanel(), quarantinePanel(), objectsPanel()] },
  { id: "leaders", title: "Leadership", panels: [leadershipPanel()] },
  { id: "partitions", title: "Partitions", panels: [partitionsPanel(), migrationsPanel(), exportsPanel()] },
  { id: "files", title: "Files", panels: [topicsPanel(), uploadersPanel(), filesPanel(), snapshotsPanel(), histogramsPanel()] },
  { id: "monitor", title: "Monitor", panels: [monitorPanel()] },
];
const look = lookPanel();
const panels = [look, ...sections.flatMap((section) => section.panels)];
at("main").append(h("div", { class: "section grid", id: "looked" }, look.element));

for (const { id, title, panels: own, before = [] } of sections) {
  at("sections").append(h("a", { href: `#${id}` }, title));
  at("main").append(h("div", { class: "section", id }, before, h("div", { class: "grid" }, own.map((panel) => panel.element))));
}

// ---- news

let version = "";
let paused = false;
let last = null;
let announced = "";

const refresh = (force = false) => panels.forEach((panel) => panel.refresh(version, force));

function showOverview(overview) {
  last = overview;
  if (paused) return;
  version = overview.version;
  const { level, sentence, problems: wrong } = overview.verdict;
  at("verdict").dataset.level = level;
  at("sentence").textContent = sentence;
  document.title = `${{ good: "", unknown: "… ", warning: "! ", bad: "✕ " }[level]}Diskless`;
  const spoken = wrong.length ? `${level}: ${wrong.map((one) => one.text.replace(/[\d.,\u202f]+/g, "")).join("; ")}` : level;
  if (spoken !== announced) {
    announced = spoken;
    at("announcement").textContent = sentence; // when what is wrong changes, not when a number does
  }
  problems.hidden = wrong.length < 2; // one is the verdict itself
  problems.replaceChildren(...wrong.map((one) => h("li", { "data-level": one.level }, h("a", { href: `#panel-${one.panel}`, onclick: (event) => show(event, one) }, one.text))));
  const buttonsChanged = allowAcknowledging(overview.can_acknowledge, () => refresh(true));
  at("place").textContent = `${overview.folder}, ${clock(overview.now_ms)}`;
  showStart(overview);
  now.update(overview);
  refresh(buttonsChanged);
}

// Before the monitor has read anything, how to start it takes the place of empty panels.
function showStart({ state: known, folder }) {
  if (document.body.dataset.state === known) return;
  document.body.dataset.state = known;
  start.hidden = known !== "empty";
  start.replaceChildren(h("h2", { id: "start-title" }, "Nothing to show yet"),
    h("p", {}, "This page shows what the monitor reads from the log. It appears here by itself as soon as the monitor runs:"),
    h("p", { class: "command" }, h("code", {}, `diskless monitor run --bootstrap-server KAFKA:9092 --dir ${folder}`)),
    h("p", { class: "note" }, "To try it all on this machine: ", h("code", {}, "diskless dev up"), " starts Kafka, coordinators, a load, the monitor and this page."));
}

function showLink(status, sinceMs) {
  const texts = { live: "live", resting: "resting", lost: "lost", connecting: "connecting" };
  at("link").dataset.state = paused && status === "live" ? "paused" : status;
  at("link-text").textContent = paused && status === "live" ? "held" : texts[status];
  const lost = status === "lost";
  document.body.classList.toggle("lost-connection", lost);
  at("lost").hidden = !lost;
  if (lost) {
    const text = sinceMs ? `Connection lost; what you see is ${duration(Date.now() - sinceMs)} old. It is tried again until it works.` : "The dashboard does not answer. It is tried again until it does.";
    if (at("lost").textContent !== text) at("lost").textContent = text;
  }
}

const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const panel = panels.find((one) => one.element === entry.target);
    panel.seen = entry.isIntersecting;
    if (panel.seen && !paused) panel.refresh(version);
  }
}, { rootMargin: "200px" });
for (const panel of panels) if (panel !== look) observer.observe(panel.element);
searchField(at("find"), at("found"));

const live = new Live({ overview: showOverview, state: showLink });

// ---- what the user chooses

const sameDay = (range) => new Set(range.map((second) => new Date(second * 1000).toDateString())).size === 1;

function showChoices() {
  const fixed = state.fixed();
  for (const button of at("ranges").children) button.setAttribute("aria-pressed", !fixed && button.dataset.range === state.get("range"));
  at("fixed").textContent = fixed ? `${moment(fixed[0] * 1000)} – ${sameDay(fixed) ? clock(fixed[1] * 1000) : moment(fixed[1] * 1000)}` : "Range…";
  at("fixed").classList.toggle("set", Boolean(fixed));
  at("later").disabled = !fixed;
  if (document.activeElement !== at("topic")) at("topic").value = state.get("topic");
  at("topic").classList.toggle("set", Boolean(state.get("topic")));
}
state.onChange(() => {
  showChoices();
  panels.forEach((panel) => panel.refresh(version));
});
showChoices();
const follow = (range) => state.set({ range, from: "", to: "" });
at("ranges").addEventListener("click", (event) => event.target.dataset.range && follow(event.target.dataset.range));

// What is shown, in seconds, also while the page follows the time.
const shown = () => state.fixed() ?? [Math.floor(Date.now() / 1000) - Number(state.get("range")), Math.floor(Date.now() / 1000)];

function shift(by) {
  const [from, to] = shown();
  const width = to - from;
  if (by > 0 && to + width > Date.now() / 1000) return follow(state.get("range"));
  state.choose(from + by * width, to + by * width);
}
at("earlier").addEventListener("click", () => shift(-1));
at("later").addEventListener("click", () => shift(1));

const form = at("range-form");
const local = (second) => new Date((second - new Date(second * 1000).getTimezoneOffset() * 60) * 1000).toISOString().slice(0, 19);
function askRange() {
  [form.elements.from.value, form.elements.to.value] = shown().map(local);
  at("range-dialog").showModal();
}
at("fixed").addEventListener("click", askRange);
at("range-cancel").addEventListener("click", () => at("range-dialog").close());
form.addEventListener("submit", () => state.choose(...[form.elements.from, form.elements.to].map((field) => new Date(field.value).getTime() / 1000)));

let asked;
async function offerTopics() {
  const search = at("topic").value.trim();
  if (search === asked) return;
  asked = search;
  try {
    const answer = await fetch(`/api/topics?${new URLSearchParams({ search, limit: 20 })}`);
    if (answer.ok) at("topic-names").replaceChildren(...(await answer.json()).rows.map((row) => h("option", { value: row.topic })));
  } catch {
    asked = undefined; // the connection is lost, which the head of the page says
  }
}
at("topic").addEventListener("focus", offerTopics);
at("topic").addEventListener("input", () => {
  offerTopics();
  const value = at("topic").value.trim();
  if (!value || [...at("topic-names").children].some((option) => option.value === value)) state.set({ topic: value, page: "0" });
});
at("topic").addEventListener("change", () => state.set({ topic: at("topic").value.trim(), page: "0" }));

function hold() {
  paused = !paused;
  at("pause").setAttribute("aria-pressed", paused);
  at("pause").textContent = paused ? "▶" : "❚❚";
  showLink(at("link").dataset.state === "paused" ? "live" : at("link").dataset.state);
  if (!paused && last) showOverview(last);
}
at("pause").addEventListener("click", hold);

const dark = matchMedia("(prefers-color-scheme: dark)");
const themeNow = () => document.documentElement.dataset.theme ?? (dark.matches ? "dark" : "light");
function turn() {
  document.documentElement.dataset.theme = themeNow() === "dark" ? "light" : "dark";
  localStorage.setItem("diskless-theme", document.documentElement.dataset.theme);
  repaintCharts();
}
at("theme").addEventListener("click", turn);
dark.addEventListener("change", repaintCharts);

at("verdict").addEventListener("click", () => wrong());
function wrong() {
  const first = last?.verdict.problems[0];
  if (first) show(null, first);
  else focusPanel(at("panel-findings"));
}

// To what a problem is about: its page, or its finding, opened in its panel.
function show(event, { panel, look: about }) {
  event?.preventDefault();
  event?.stopPropagation();
  const [kind, number] = about.split("/");
  if (about && kind !== "finding") {
    state.set({ look: about });
    return focusPanel(look.element);
  }
  if (number) {
    state.set({ findings: "0" });
    openDetails(`finding-${number}`);
  }
  focusPanel(at(`panel-${panel}`));
}

// ---- keyboard

const shortcuts = at("shortcuts");
at("help").addEventListener("click", () => shortcuts.showModal());

function focusPanel(element) {
  element?.scrollIntoView({ block: "start" });
  element?.focus({ preventScroll: true });
}

function step(by) {
  const drawn = panels.filter((panel) => !panel.element.hidden);
  const place = drawn.findIndex((panel) => panel.element.contains(document.activeElement));
  const next = place < 0 ? (by > 0 ? 0 : drawn.length - 1) : Math.min(drawn.length - 1, Math.max(0, place + by));
  focusPanel(drawn[next].element);
}

const keys = {
  1: () => follow("300"), 2: () => follow("3600"), 3: () => follow("86400"), r: askRange,
  j: () => step(1), k: () => step(-1), "/": () => at("search").focus(), g: () => at("find").focus(), f: () => at("topic").focus(), t: turn, p: hold, w: wrong, "?": () => shortcuts.showModal(),
  s: () => {
    const order = ["total", "coordinator", "topic"];
    state.set({ split: order[(order.indexOf(state.get("split")) + 1) % order.length] });
  },
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const typing = event.target.matches("input, textarea, select");
  if (event.key === "Escape") forgetAnchor();
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing || !keys[event.key]) return;
  event.preventDefault();
  keys[event.key]();
});

// Links to parts of the page must not take the place of what the address says is shown.
addEventListener("click", (event) => {
  const link = event.target.closest?.('a[href^="#"]');
  if (!link) return;
  event.preventDefault();
  const named = new URLSearchParams(link.getAttribute("href").slice(1)).get("look");
  if (named) {
    state.set({ look: named });
    return focusPanel(look.element);
  }
  const target = at(link.getAttribute("href").slice(1));
  if (target === at("main")) scrollTo({ top: 0 });
  const focusable = target?.matches("[tabindex]") ? target : target?.querySelector("section.card");
  if (target !== at("main")) target?.scrollIntoView({ block: "start" });
  focusable?.focus({ preventScroll: true });
});

// ---- a reload comes back to the same place, once the panels have their height again

history.scrollRestoration = "manual";
const wanted = Number(sessionStorage.getItem("diskless-scroll") ?? 0);
addEventListener("pagehide", () => sessionStorage.setItem("diskless-scroll", String(scrollY)));
if (wanted) {
  const end = Date.now() + 3000;
  const restore = () => {
    scrollTo({ top: wanted });
    if (Math.abs(scrollY - wanted) > 2 && Date.now() < end) requestAnimationFrame(restore);
  };
  requestAnimationFrame(restore);
}
for (const kind of ["wheel", "keydown", "pointerdown"]) addEventListener(kind, () => sessionStorage.removeItem("diskless-scroll"), { passive: true, once: true });

export { live };
