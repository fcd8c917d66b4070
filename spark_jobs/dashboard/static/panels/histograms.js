// Distributions, one small picture each.

import { h, svg } from "/static/dom.js";
import { bytes, grouped, milliseconds } from "/static/format.js";
import { Panel } from "/static/panel.js";
import * as state from "/static/state.js";

const SHOW = { bytes, ms: milliseconds, percent: (value) => `${value}\u00a0%`, count: grouped };

export function histogramsPanel() {
  return new Panel({
    id: "histograms", title: "Distributions", size: "wide", everyMs: () => 2 * state.pauseMs(),
    load: () => `histograms?${state.rangeParameters()}`,
    draw: (data) => [h("div", { class: "histograms" }, data.histograms.map(picture))],
  });
}

function picture({ name, title, unit, count, buckets, quantiles }) {
  const show = SHOW[unit];
  const short = { file_bytes: "File size", fill_percent: "Fill ratio by coordinator", batches_per_file: "Batches per file, by coordinator", partitions_per_file: "Partitions per file, by coordinator", freshness_ms: "Freshness" }[name] ?? title;
  const most = Math.max(...buckets.map((bucket) => bucket.count), 1);
  const width = 100 / Math.max(buckets.length, 1);
  const bars = buckets.map((bucket, place) => {
    const height = bucket.count ? Math.max(0.8, bucket.count / most * 60) : 0;
    return svg("rect", { x: (place * width + width * 0.08).toFixed(2), y: (60 - height).toFixed(2), width: (width * 0.84).toFixed(2), height: height.toFixed(2), class: "fill-1" },
      svg("title", {}, `up to ${show(bucket.upper)}: ${grouped(bucket.count)}`));
  });
  const told = count ? `${short}: ${grouped(count)} values, p50 ${show(quantiles.p50)}, p95 ${show(quantiles.p95)}, p99 ${show(quantiles.p99)}` : `${short}: no values`;
  return h("figure", { class: "histogram" }, h("figcaption", { title }, short),
    count ? [svg("svg", { viewBox: "0 0 100 60", preserveAspectRatio: "none", role: "img", "aria-label": told }, bars),
      h("div", { class: "ends" }, h("span", {}, `≤ ${show(buckets[0].upper)}`), h("span", {}, `≤ ${show(buckets.at(-1).upper)}`)),
      h("p", { title: "At most: the upper ends of the bars" }, ["p50", "p95", "p99"].map((name) => h("span", { class: "quantile" }, `${name} `, h("b", {}, show(quantiles[name])))))] : h("p", { class: "none" }, "Nothing in this range."));
}
