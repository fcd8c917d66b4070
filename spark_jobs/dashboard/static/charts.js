// Line charts over time. uPlot draws; what the lines say is also in the legend, with the value under the pointer.
// A chart has three states: a value, zero, and not known, which is a gap in the lines and a grey band.

import { h } from "/static/dom.js";
import { clock, moment } from "/static/format.js";
import * as state from "/static/state.js";

const charts = new Set();
const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const sync = "time";

let marks = [];
let anchor = null; // the second that was clicked first

// Marks {at_ms, kind, text} of all charts.
export function showMarks(found) {
  marks = found;
  redraw();
}

const redraw = () => charts.forEach((chart) => chart.plot?.redraw(false));

// A range is dragged, or its two ends are clicked. uPlot keeps the click at the end of a drag for itself.
function dragged(plot) {
  const { left, width } = plot.select;
  if (!width) return;
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  choose(plot.posToVal(left, "x"), plot.posToVal(left + width, "x"));
}

function clicked(plot) {
  const second = plot.posToVal(plot.cursor.left, "x");
  if (anchor !== null) return choose(anchor, second);
  anchor = second;
  redraw();
}

function choose(one, other) {
  forgetAnchor();
  state.choose(one, other);
}

export function forgetAnchor() {
  anchor = null;
  redraw();
}

function drawMarks(plot) {
  const { ctx, bbox } = plot;
  const line = (second, colour, dash) => {
    const x = Math.round(plot.valToPos(second, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width) return;
    ctx.strokeStyle = colour;
    ctx.setLineDash(dash);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  };
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  for (const { at_ms, kind } of marks) line(at_ms / 1000, style(`--mark-${kind}`), [3 * devicePixelRatio, 3 * devicePixelRatio]);
  if (anchor !== null) line(anchor, style("--ink"), []);
  ctx.restore();
}

// A grey band where nothing is known, with the reason where there is room for it. Times in milliseconds.
function drawBands(plot, bands) {
  const { ctx, bbox } = plot;
  const left = (ms) => Math.min(bbox.left + bbox.width, Math.max(bbox.left, plot.valToPos(ms / 1000, "x", true)));
  ctx.save();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  for (const { from_ms, to_ms, why } of bands) {
    const [from, to] = [left(from_ms), left(to_ms)];
    if (to - from < 1) continue;
    ctx.fillStyle = style("--unknown-band");
    ctx.fillRect(from, bbox.top, to - from, bbox.height);
    ctx.fillStyle = style("--soft");
    if (ctx.measureText(why).width + 8 * devicePixelRatio < to - from) ctx.fillText(why, (from + to) / 2, bbox.top + bbox.height / 2);
  }
  ctx.restore();
}

export class TimeChart {
  // `show` formats a value of the legend, `axis` one of the axis.
  constructor({ label, show, axis, height = 150 }) {
    Object.assign(this, { label, show, axis, height, plot: null, names: "", unknown: [] });
    this.canvas = h("div", { class: "canvas", role: "img", "aria-label": label });
    this.legend = h("ul", { class: "legend" });
    this.element = h("figure", { class: "chart" }, h("figcaption", {}, label), this.canvas, this.legend);
    this.observer = new ResizeObserver(() => this.resize());
    this.observer.observe(this.canvas);
    charts.add(this);
  }

  // The range from `first_s` to `end_s`, `times` in seconds, `lines` [{label, values}], `unknown` [{from_ms, to_ms, why}].
  update({ first_s: first, end_s: end, times, lines, unknown = [] }) {
    Object.assign(this, { first, end, times, lines, seconds: end - first, unknown });
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
      padding: [8, 24, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 6 }, drag: { x: true, y: false, setScale: false }, sync: { key: sync } },
      scales: { x: { time: true, range: () => [this.first, this.end] }, y: { range: (_plot, _low, high) => [0, high > 0 ? high * 1.12 : 1] } },
      axes: [
        { ...axis, size: 26, space: 70, values: (_plot, splits) => splits.map((one) => clock(one * 1000, this.seconds <= 600)) },
        { ...axis, size: 58, space: 34, values: (_plot, splits) => splits.map((one) => this.axis(one)) },
      ],
      series: [{}, ...this.lines.map((line, place) => ({
        label: line.label,
        stroke: colour(place),
        width: this.lines.length > 1 ? 1.4 : 1.8,
        fill: this.lines.length === 1 ? style("--area") : undefined,
        points: { show: this.times.length < 12 },
        spanGaps: false,
      }))],
      hooks: {
        drawAxes: [(plot) => drawBands(plot, this.unknown)],
        draw: [drawMarks],
        setCursor: [(plot) => this.values(plot.cursor.idx)],
        setSelect: [dragged],
        ready: [(plot) => plot.over.addEventListener("click", () => clicked(plot))],
      },
    }, this.data(), this.canvas);
    this.legend.replaceChildren(...this.lines.map((line, place) =>
      h("li", {}, h("span", { class: `key line-${(place % 8) + 1}` }), h("span", { class: "name", title: line.label }, line.label), h("b", {}))));
  }

  // The values under the pointer, or the last ones.
  values(place) {
    const known = this.times.findLastIndex((_, one) => this.lines.some((line) => line.values[one] !== null));
    const at = place ?? Math.max(0, known);
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
    const gaps = this.unknown.map(({ from_ms, to_ms, why }) => `${why} from ${moment(from_ms)} to ${moment(to_ms)}`);
    this.canvas.setAttribute("aria-label", `${this.label}. ${[...parts, ...gaps].join("; ")}`);
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
