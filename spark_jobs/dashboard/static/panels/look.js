// The page of one thing that the address names: a topic, partition, coordinator, node, file, producer or entry. And the search for them.

import { command, facts, h, table } from "/static/dom.js";
import { bytes, counted, grouped, iso, moment } from "/static/format.js";
import { Panel } from "/static/panel.js";
import * as state from "/static/state.js";

const SHOW = {
  text: String, code: (value) => h("code", {}, value), number: grouped, bytes: (value) => h("span", { title: `${value} bytes` }, bytes(value)), command: (value) => command(value, "look-command"),
  time: (value) => h("time", { datetime: iso(value), title: iso(value) }, moment(value)), hex: (value) => h("pre", { tabindex: 0, "aria-label": "first bytes" }, value || "no bytes: a tombstone"),
};

// A link to the page of a thing.
export const lookLink = (text, look) => h("a", { href: `#look=${encodeURIComponent(look)}`, class: "look" }, text);

function cell({ value, unit, look }) {
  if (value === null || value === undefined) return "–";
  return look ? lookLink(value, look) : SHOW[unit](value);
}

export function lookPanel() {
  const topic = h("button", { type: "button", class: "copy", onclick: () => state.set({ topic: topic.dataset.topic, page: "0" }) }, "Only this topic in charts and tables");
  const close = h("button", { type: "button", class: "copy", id: "look-close", onclick: () => state.set({ look: "" }) }, "Close");
  const panel = new Panel({
    id: "look", title: "Page", size: "wide", moving: true, actions: [topic, close], everyMs: () => 3000,
    load: () => `look?${new URLSearchParams({ look: state.get("look") })}`,
    draw({ kind, name, missing, facts: known, tables }) {
      const [of, number] = kind === "partition" ? [name.slice(0, name.lastIndexOf("/")), name.slice(name.lastIndexOf("/") + 1)] : [name];
      panel.retitle(`${kind[0]?.toUpperCase() ?? ""}${kind.slice(1)} ${number === undefined ? name : `${of}-${number}`}`);
      topic.hidden = !["topic", "partition"].includes(kind) || missing;
      topic.dataset.topic = of;
      if (missing) return [h("p", { class: "none" }, `${missing}.`)];
      return [facts(known.map((one) => [one.name, cell(one)])), tables.filter((one) => one.rows.length).map((one) => [
        h("h3", {}, one.title, one.total > one.rows.length ? ` (${grouped(one.rows.length)} of ${counted(one.total, "row")})` : ""),
        table(one.title, one.columns.map((title, place) => ({ title, wide: ["text", "code"].includes(one.rows[0][place].unit), numeric: ["number", "bytes", "time"].includes(one.rows[0][place].unit), cell: (row) => cell(row[place]) })), one.rows)])];
    },
  });
  const show = () => {
    panel.element.hidden = !state.get("look");
    panel.seen = !panel.element.hidden;
  };
  show();
  state.onChange(show);
  return panel;
}

// The field that finds things: what is chosen in its list, or the first of it, is opened.
export function searchField(input, options) {
  let found = [];
  const ask = async () => {
    try {
      const answer = await fetch(`/api/search?${new URLSearchParams({ search: input.value.trim() })}`);
      found = answer.ok ? (await answer.json()).rows : [];
    } catch {
      found = []; // the connection is lost, which the head of the page says
    }
    options.replaceChildren(...found.map(({ text }) => h("option", { value: text })));
  };
  const open = (row) => {
    input.value = "";
    input.blur();
    state.set({ look: row.look });
    document.getElementById("panel-look").scrollIntoView({ block: "start" });
  };
  input.addEventListener("input", async () => {
    const chosen = found.find(({ text }) => text === input.value);
    if (chosen) open(chosen);
    else await ask();
  });
  input.addEventListener("keydown", async (event) => {
    if (event.key !== "Enter") return;
    await ask();
    if (found.length) open(found[0]);
    else input.setCustomValidity("Nothing is called that"), input.reportValidity(), setTimeout(() => input.setCustomValidity(""), 2000);
  });
}
