// Who led which coordinator when: a lane per coordinator, a colour per node.

import { details, h, svg, table } from "/static/dom.js";
import { clock, counted, grouped, iso, moment } from "/static/format.js";
import { Panel } from "/static/panel.js";
import { lookLink } from "/static/panels/look.js";
import * as state from "/static/state.js";

const LANE = 22, LEFT = 34, FOOT = 20;

export function leadershipPanel() {
  const panel = new Panel({
    id: "leadership", title: "Leadership", size: "wide", moving: true, help: "Claims that came into force, from the log",
    everyMs: () => 2 * state.pauseMs(),
    load: () => `leadership?${state.rangeParameters()}`,
    draw(data, panel) {
      panel.count(0);
      if (!data.coordinators.length) return [h("p", { class: "none" }, "No coordinator yet.")];
      panel.lastData = data;
      const colour = new Map(data.nodes.map((node, place) => [node.node_id, (place % 8) + 1]));
      const legend = h("ul", { class: "legend" }, data.nodes.map((node) => {
        const led = data.coordinators.filter((one) => one.terms.at(-1)?.node_id === node.node_id).length;
        const leads = data.unknown.some((span) => span.to_ms === data.to_ms) ? `led ${led} when last seen` : `leads ${led}`;
        return h("li", {}, h("span", { class: `key line-${colour.get(node.node_id)}` }), h("span", { class: "name", title: node.endpoints ?? "" }, lookLink(`node ${node.node_id}`, `node/${node.node_id}`), node.rack ? `, ${node.rack}` : ""), h("b", {}, node.silent_ms ? "does not answer" : node.drain ? `drains, ${leads}` : leads));
      }));
      const changes = data.coordinators.flatMap((one) => one.terms.map((term) => ({ ...term, coordinator: one.coordinator }))).filter((term) => term.from_ms > data.from_ms).sort((a, b) => b.from_ms - a.from_ms);
      return [legend, lanes(data, colour, panel.body.clientWidth),
        h("p", { class: "note" }, `${counted(data.changes, "change")} of leadership in this range, ${grouped(data.changes_total)} in all.`),
        changes.length ? details("changes", "Last changes", table("Last changes of leadership", [
          { title: "Time", cell: (term) => h("time", { datetime: iso(term.from_ms) }, moment(term.from_ms)) }, { title: "Coordinator", numeric: true, cell: (term) => lookLink(term.coordinator, `coordinator/${term.coordinator}`) },
          { title: "Node", cell: (term) => lookLink(`node ${term.node_id}`, `node/${term.node_id}`) }, { title: "Epoch", numeric: true, cell: (term) => term.epoch }, { title: "At offset", numeric: true, cell: (term) => grouped(term.offset) }], changes.slice(0, 50))) : null];
    },
  });
  let width = 0;
  new ResizeObserver(() => {
    if (panel.text !== null && Math.abs(panel.body.clientWidth - width) > 4) panel.render(panel.text);
    width = panel.body.clientWidth;
  }).observe(panel.body);
  return panel;
}

function band(from, to, y, why) {
  if (to - from < 1) return null;
  return svg("g", {}, svg("rect", { x: from.toFixed(1), y: y + 2, width: (to - from).toFixed(1), height: LANE - 6, class: "unknown" }, svg("title", {}, why)),
    to - from > why.length * 7 ? svg("text", { x: (from + 6).toFixed(1), y: y + 15 }, why) : null);
}

function lanes(data, colour, width) {
  const silent = new Map(data.nodes.filter((node) => node.silent_ms).map((node) => [node.node_id, node.silent_ms]));
  const known = data.unknown.find((span) => span.to_ms === data.to_ms)?.from_ms ?? data.to_ms;
  const inner = Math.max(120, width - LEFT - 4);
  const span = data.to_ms - data.from_ms;
  const x = (ms) => LEFT + (Math.min(data.to_ms, Math.max(data.from_ms, ms)) - data.from_ms) / span * inner;
  const height = data.coordinators.length * LANE;
  const rows = data.coordinators.map(({ coordinator, terms }, place) => {
    const y = place * LANE;
    const last = terms.at(-1);
    return svg("g", { role: "listitem", "aria-label": `coordinator ${coordinator}: ${!last ? "no leader known" : silent.has(last.node_id) ? `node ${last.node_id} led it and does not answer` : `led by node ${last.node_id}, epoch ${last.epoch}`}` },
      svg("text", { x: LEFT - 8, y: y + 15, class: "lane" }, coordinator),
      svg("rect", { x: LEFT, y: y + 2, width: inner, height: LANE - 6, rx: 3, class: "rail" }),
      terms.map((term) => {
        // Nobody knows of a node that does not answer whether it still leads.
        const from = x(term.from_ms), to = x(term.to_ms ?? Math.min(silent.get(term.node_id) ?? known, known));
        if (to <= LEFT) return null;
        const wide = Math.max(2, to - from - 1);
        return svg("g", {}, svg("rect", { x: from.toFixed(1), y: y + 2, width: wide.toFixed(1), height: LANE - 6, rx: 3, class: `fill-${colour.get(term.node_id)}` },
          svg("title", {}, `node ${term.node_id}, epoch ${term.epoch}, from ${moment(term.from_ms)} (offset ${term.offset})`)),
        wide > 60 ? svg("text", { x: (from + 6).toFixed(1), y: y + 15, class: "term" }, wide > 130 ? `node ${term.node_id} · epoch ${term.epoch}` : `node ${term.node_id}`) : null);
      }),
      last && last.to_ms === null && silent.has(last.node_id) ? band(x(silent.get(last.node_id)), x(Math.max(silent.get(last.node_id), known)), y, `node ${last.node_id} does not answer`) : null,
      data.unknown.map(({ from_ms, to_ms, why }) => band(x(from_ms), x(to_ms), y, why)));
  });
  const ticks = Array.from({ length: Math.max(2, Math.floor(inner / 130)) }, (_, place, all = Math.max(2, Math.floor(inner / 130)) - 1) => data.from_ms + span * place / all);
  const axis = ticks.map((ms, place) => svg("text", { x: x(ms), y: 13, class: `tick ${place === 0 ? "first" : place === ticks.length - 1 ? "last" : ""}` }, clock(ms, span <= 600000)));
  return h("div", {}, h("div", { class: "scroll lanes", tabindex: 0, role: "group", "aria-label": "Leaders over time" },
    svg("svg", { width: inner + LEFT + 2, height, role: "list", "aria-label": "Leaders of the coordinators over time" }, rows)),
  svg("svg", { width: inner + LEFT + 2, height: FOOT, "aria-hidden": "true" }, axis));
}
