// The live charts, all with the same lines: together, by coordinator, or by topic.

import { TimeChart } from "/static/charts.js";
import { h } from "/static/dom.js";
import { amount, bytes, counted, short } from "/static/format.js";
import { Panel } from "/static/panel.js";
import * as state from "/static/state.js";

const SPLITS = [["total", "Together"], ["coordinator", "By coordinator"], ["topic", "By topic"]];

export function activityPanel() {
  const charts = {
    files: new TimeChart({ label: "Files per second", show: amount, axis: short }),
    batches: new TimeChart({ label: "Batches per second", show: amount, axis: short }),
    bytes: new TimeChart({ label: "Bytes per second", show: bytes, axis: bytes }),
  };
  const buttons = SPLITS.map(([split, text]) =>
    h("button", { type: "button", "data-split": split, onclick: () => state.set({ split }) }, text));
  const mark = () => buttons.forEach((button) => button.setAttribute("aria-pressed", button.dataset.split === state.get("split")));
  mark();
  state.onChange(mark);
  const note = h("p", { class: "note" });
  const grid = h("div", { class: "charts" }, Object.values(charts).map((chart) => chart.element));
  return new Panel({
    id: "activity", title: "Activity", size: "wide", moving: true, everyMs: state.pauseMs,
    help: "Rates over whole steps, from the append time of the log's entries",
    actions: [h("div", { class: "segments", role: "group", "aria-label": "Lines of the charts" }, buttons)],
    load: () => `activity?${state.rangeParameters({ split: state.get("split"), topic: state.get("topic") })}`,
    draw(data, panel) {
      if (!panel.body.contains(grid)) panel.body.replaceChildren(grid, note);
      const steps = (data.end_s - data.first_s) / data.step_s;
      const times = Array.from({ length: steps }, (_, step) => data.first_s + step * data.step_s);
      for (const [unit, chart] of Object.entries(charts)) {
        const known = data.lines.filter((line) => line.rates[unit]);
        chart.element.hidden = !known.length;
        if (known.length) chart.update({ ...data, times, lines: known.map((line) => ({ label: line.label, values: line.rates[unit] })) });
      }
      const { files, batches, records } = data.sums;
      const told = data.lines.some((line) => line.rates.files) ? `${counted(files.digits, "file")}, ` : "";
      const unknown = [...new Set(data.unknown.map((one) => one.why))];
      note.textContent = `${unknown.length ? `Grey: ${unknown.join(", ")}. ` : ""}In this range: ${told}${counted(batches.digits, "batch", "batches")}, ${counted(records.digits, "record")}, ${bytes(data.sums.bytes.value)}.${data.note ? ` ${data.note[0].toUpperCase()}${data.note.slice(1)}.` : ""}`;
      return null;
    },
  });
}
