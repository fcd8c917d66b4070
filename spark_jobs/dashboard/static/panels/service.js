// What the nodes say of themselves: who answers and leads, and the latency of commits. Grafana's boards have the rest.

import { TimeChart } from "/static/charts.js";
import { h, table } from "/static/dom.js";
import { duration, grouped, milliseconds, short } from "/static/format.js";
import { Panel } from "/static/panel.js";
import * as state from "/static/state.js";

export function servicePanel() {
  const latency = new TimeChart({ label: "Commit latency, milliseconds", show: milliseconds, axis: short });
  const numbers = h("div", { class: "numbers" });
  const nodes = h("div", {});
  const pair = h("div", { class: "pair" }, latency.element, nodes);
  return new Panel({
    id: "service", title: "Service", size: "wide", moving: true, everyMs: () => 4000, help: "From the coordinators' /metrics",
    load: () => `service?range=${state.get("range")}`,
    draw(data, panel) {
      const down = data.processes.filter((one) => !one.up).length;
      panel.count(down ? `${down} down` : 0, "bad");
      if (!data.configured) {
        return [h("p", { class: "none" }, "Start the dashboard with ", h("code", {}, "--coordinators host:port,…"), " (their HTTP ports) to see commit latency and who answers.")];
      }
      if (!panel.body.contains(pair)) panel.body.replaceChildren(numbers, pair);
      const { p50, p90, p99 } = data.commit_latency_ms;
      numbers.replaceChildren(...[["Half within", p50], ["90 % within", p90], ["99 % within", p99]].map(([title, value]) =>
        h("div", {}, h("span", {}, title), h("b", {}, milliseconds(value)))),
      h("div", {}, h("span", {}, `Commits, last ${data.window_s} s`), h("b", {}, grouped(data.commits_in_window))));
      const times = data.history.map((one) => one.time_s);
      const seconds = times.length > 1 ? times.at(-1) - times[0] : 60;
      latency.update(times, [{ label: "99 %", values: data.history.map((one) => one.p99_ms) }, { label: "50 %", values: data.history.map((one) => one.p50_ms) }], seconds);
      nodes.replaceChildren(processes(data));
      return null;
    },
  });
}

const status = (one) => (one.up ? h("span", { class: "state good" }, "up") : h("span", { class: "state bad", title: one.error }, `down for ${duration(one.down_ms)}`));

function processes(data) {
  return h("div", {}, h("h3", {}, "Processes"), table("Coordinator processes", [
    { title: "Process", cell: (one) => one.address },
    { title: "", cell: status },
    { title: "Leads", numeric: true, cell: (one) => (one.up ? grouped(one.states.leading ?? 0) : "–") },
    { title: "Follows", numeric: true, cell: (one) => (one.up ? grouped(one.states.following ?? 0) : "–") },
    { title: "Other", cell: (one) => Object.entries(one.states).filter(([name, count]) => count && !["leading", "following"].includes(name)).map(([name, count]) => `${count} ${name}`).join(", ") || "–" },
    { title: "Commits", numeric: true, help: "decided since it started", cell: (one) => (one.commits === null ? "–" : grouped(one.commits)) },
  ], data.processes), ...data.processes.filter((one) => one.error).map((one) => h("p", { class: "note" }, `${one.address}: ${one.error}`)),
  ...data.processes.flatMap((one) => one.offline_directories.map((path) => h("p", { class: "note" }, `${one.address}: data directory ${path} is offline`))));
}
