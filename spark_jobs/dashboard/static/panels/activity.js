// The live charts, all with the same lines: together, by coordinator, or by topic.

import { TimeChart } from "/static/charts.js";
import { h } from "/static/dom.js";
import { amount, bytes, counted, short } from "/static/format.js";
import { Panel } from "/static/panel.js";
import * as state from "/static/state.js";

const SPLITS = [["total", "Together"], ["coordinator", "By coordinator"], ["topic", "By topic"]];
export const chartPauseMs = () => ({ 300: 1500, 3600: 8000, 86400: 30000 })[state.get("range")];

export function activityPanel() {
  const charts = {
    files: new TimeChart({ label: "Files committed per second", show: amount, axis: short }),
    batches: new TimeChart({ label: "Batches per second", show: amount, axis: short }),
    bytes: new TimeChart({ label: "Bytes per second", show: bytes, axis: (value) => short(value) }),
  };
  const buttons = SPLITS.map(([split, text]) =>
    h("button", { type: "button", "data-split": split, onclick: () => state.set({ split }) }, text));
  const mark = () => buttons.forEach((button) => button.setAttribute("aria-pressed", button.dataset.split === state.get("split")));
  mark();
  state.onChange(mark);
  const note = h("p", { class: "note" });
  const grid = h("div", { class: "charts" }, Object.values(charts).map((chart) => chart.element));
  return new Panel({
    id: "activity", title: "Commits", size: "wide", moving: true, everyMs: chartPauseMs,
    help: "Rates over whole steps, from the append time of the log's entries",
    actions: [h("div", { class: "segments", role: "group", "aria-label": "Lines of the charts" }, buttons)],
    load: () => `activity?${new URLSearchParams({ range: state.get("range"), split: state.get("split"), topic: state.get("topic") })}`,
    draw(data, panel) {
      if (!panel.body.contains(grid)) panel.body.replaceChildren(grid, note);
      const steps = (data.end_s - data.first_s) / data.step_s;
      const times = Array.from({ length: steps }, (_, step) => data.first_s + step * data.step_s);
      const lines = data.lines.length ? data.lines : [{ label: "nothing", rates: {} }];
      for (const [unit, chart] of Object.entries(charts)) {
        const known = lines.filter((line) => line.rates[unit] || !data.lines.length);
        chart.element.hidden = !known.length;
        if (known.length) chart.update(times, known.map((line) => ({ label: line.label, values: line.rates[unit] ?? times.map(() => 0) })), data.end_s - data.first_s);
      }
      const { files, batches, records } = data.sums;
      const told = data.lines.some((line) => line.rates.files) ? `${counted(files.digits, "file")}, ` : "";
      note.textContent = `In this range: ${told}${counted(batches.digits, "batch", "batches")}, ${counted(records.digits, "record")}, ${bytes(data.sums.bytes.value)}.${data.note ? ` ${data.note[0].toUpperCase()}${data.note.slice(1)}.` : ""}`;
      return null;
    },
  });
}
