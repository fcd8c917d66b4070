// How long commits take, as clients and as nodes see them. A fail-over shows at the clients: a node that is gone measures nothing.

import { TimeChart } from "/static/charts.js";
import { h } from "/static/dom.js";
import { milliseconds } from "/static/format.js";
import { Panel } from "/static/panel.js";
import * as state from "/static/state.js";

const WHO = { clients: "As clients see it: from the upload to the outcome", nodes: "As nodes see it: from the request to the answer" };

export function latencyPanel() {
  const charts = Object.fromEntries(Object.entries(WHO).map(([who, label]) => [who, new TimeChart({ label, show: milliseconds, axis: milliseconds })]));
  const note = h("p", { class: "note" });
  const grid = h("div", { class: "charts two" }, Object.values(charts).map((chart) => chart.element));
  return new Panel({
    id: "latency", title: "Latency of commits", size: "wide", moving: true, everyMs: () => Math.max(3000, state.pauseMs()),
    help: "Percentiles, as the upper limits of the histograms that gateways and nodes keep", load: () => `latency?${state.rangeParameters()}`,
    draw(data, panel) {
      if (!panel.body.contains(grid)) panel.body.replaceChildren(grid, note);
      const times = data.times_ms.map((ms) => ms / 1000);
      for (const [who, chart] of Object.entries(charts)) {
        chart.element.hidden = !data.asked.includes(who);
        if (data.asked.includes(who)) chart.update({ ...data, times, lines: Object.entries(data.lines[who]).map(([label, values]) => ({ label, values })) });
      }
      note.textContent = data.asked.includes("clients") ? "At most so long; nothing is drawn where no commit ended."
        : `${data.asked.length ? "What clients see is not known: no gateway is asked. " : ""}Give the HTTP addresses of gateways and nodes to --coordinators.`;
      return null;
    },
  });
}
