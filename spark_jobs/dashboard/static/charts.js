// Line charts over time. uPlot draws; what the lines say is also in the legend, with the value under the pointer.

import { h } from "/static/dom.js";
import { clock } from "/static/format.js";

const charts = new Set();
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const sync = "time";

export class TimeChart {
  // `show` formats a value of the legend, `axis` one of the axis.
  constructor({ label, show, axis, height = 150 }) {
    Object.assign(this, { label, show, axis, height, plot: null, names: "", range: null });
    this.canvas = h("div", { class: "canvas", role: "img", "aria-label": label });
    this.legend = h("ul", { class: "legend" });
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, label), this.canvas, this.legend);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.canvas);
    charts.add(this);
  }

  // `times` in seconds, `lines` [{label, values}], `seconds` the width of the range.
  update(times, lines, seconds) {
    this.times = times;
    this.lines = lines;
    this.seconds = seconds;
    const names = lines.map((line) => line.label).join("\n");
    if (!this.plot || names !== this.names) this.build(names);
    else this.plot.setData(this.data());
    this.describe();
    this.values(this.plot?.cursor.idx ?? null);
  }

  data() {
    return [this.times, ...this.lines.map((line) => line.values)];
  }

  build(names) {
    this.plot?.destroy();
    this.plot = null;
    this.names = names;
    const width = this.canvas.clientWidth;
    if (!width) return; // not laid out yet: resize() comes
    const colour = (place) => style(`--line-${(place % 8) + 1}`);
    const grid = { stroke: style("--grid"), width: 1 };
    const axis = { stroke: style("--faint"), font: "11px system-ui, sans-serif", grid, ticks: { show: false } };
    this.plot = new uPlot({
      width,
      height: this.height,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, sync: { key: sync } },
      scales: { x: { time: true }, y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.12 : 1] } },
      axes: [
        { ...axis, size: 26, space: 70, values: (_plot, splits) => splits.map((one) => clock(one * 1000, this.seconds <= 300)) },
        { ...axis, size: 52, space: 34, values: (_plot, splits) => splits.map((one) => this.axis(one)) },
      ],
      series: [{}, ...this.lines.map((line, place) => ({
        label: line.label,
        stroke: colour(place),
        width: this.lines.length > 1 ? 1.4 : 1.8,
        fill: this.lines.length === 1 ? style("--area") : undefined,
        points: { show: this.times.length < 12 },
        spanGaps: false,
      }))],
      hooks: { setCursor: [(plot) => this.values(plot.cursor.idx)] },
    }, this.data(), this.canvas);
    this.legend.replaceChildren(...this.lines.map((line, place) =>
      h("li", {}, h("span", { class: `key line-${(place % 8) + 1}` }), h("span", { class: "name", title: line.label }, line.label), h("b", {}))));
  }

  // The values under the pointer, or the last ones.
  values(place) {
    const at = place ?? this.times.length - 1;
    [...this.legend.querySelectorAll("b")].forEach((cell, line) => {
      const value = this.lines[line]?.values[at];
      cell.textContent = value === null || value === undefined ? "–" : this.show(value);
    });
  }

  describe() {
    const parts = this.lines.map((line) => {
      const known = line.values.filter((value) => value !== null && value !== undefined);
      return known.length ? `${line.label}: last ${this.show(known.at(-1))}, highest ${this.show(Math.max(...known))}` : `${line.label}: no values`;
    });
    this.canvas.setAttribute("aria-label", `${this.label}. ${parts.join("; ")}`);
  }

  resize() {
    const width = this.canvas.clientWidth;
    if (!width || !this.lines) return;
    if (this.plot) this.plot.setSize({ width, height: this.height });
    else this.build(this.names);
  }

  repaint() {
    if (this.lines) this.build(this.names);
    this.values(null);
  }
}

export function repaintCharts() {
  for (const chart of charts) if (chart.lines) chart.repaint();
}
