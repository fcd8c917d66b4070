// The monitor itself: where it is, how far behind, how long its micro-batches take, and every total to the last digit.

import { TimeChart } from "/static/charts.js";
import { details, facts, h, table } from "/static/dom.js";
import { counted, duration, grouped, iso, milliseconds, moment, short } from "/static/format.js";
import { Panel } from "/static/panel.js";
import { lookLink } from "/static/panels/look.js";
import * as state from "/static/state.js";

const PAUSE_MS = 10_000;

// Between micro-batches that are far apart nothing is drawn: there was nothing to merge, or nobody to merge it.
const withPauses = (batches) => batches.flatMap((one, place) => {
  const before = batches[place - 1];
  const pause = { merged_ms: one.merged_ms - 1, scan_ms: null, merge_ms: null, lag_entries: null };
  return before && one.merged_ms - before.merged_ms > PAUSE_MS ? [pause, one] : [one];
});

export function monitorPanel() {
  const work = new TimeChart({ label: "Micro-batches, milliseconds", show: milliseconds, axis: short });
  const lag = new TimeChart({ label: "Entries not read yet", show: grouped, axis: short });
  const charts = h("div", { class: "charts two" }, work.element, lag.element);
  const rest = h("div", {});
  return new Panel({
    id: "monitor", title: "Monitor", size: "wide", moving: true, everyMs: () => Math.max(2000, state.pauseMs()), help: "The job that reads the log", load: () => `monitor?${state.rangeParameters()}`,
    draw(data, panel) {
      if (!data.heads.length) return [h("p", { class: "none" }, "The monitor has not read anything yet. Start it with ", h("code", {}, "diskless monitor run"), ".")];
      if (!panel.body.contains(charts)) panel.body.replaceChildren(charts, rest);
      const steps = withPauses(data.micro_batches);
      const times = steps.map((one) => one.merged_ms / 1000);
      const span = { first_s: data.first_s, end_s: data.end_s, times };
      work.update({ ...span, lines: [{ label: "reading", values: steps.map((one) => one.scan_ms) }, { label: "merging", values: steps.map((one) => one.merge_ms) }] });
      lag.update({ ...span, lines: [{ label: "entries", values: steps.map((one) => one.lag_entries) }] });
      const { job, life, log } = data;
      const known = [["Last sign of life", life?.alive_ms && moment(life.alive_ms)], ["Kafka answered last", life?.kafka_ms && moment(life.kafka_ms)], ["Kafka says", life?.kafka_error], ["Ended", life?.ended_ms && moment(life.ended_ms)], ["Because", life?.failure], ["Topic", log?.topic], ["Topic id", log?.topic_id], ["Version", job.version], ["Process", job.pid], ["Started", job.started_ms && moment(Number(job.started_ms))], ["Trigger", job.trigger_s && `every ${job.trigger_s} s`]];
      const open = [...rest.querySelectorAll("details")].filter((one) => one.open).map((one) => one.dataset.key);
      rest.replaceChildren(
        facts(known),
        details("heads", `${counted(data.heads.length, "partition")} of the log`, table("Partitions of the log", [
          { title: "Partition", numeric: true, cell: (one) => lookLink(one.coordinator, `coordinator/${one.coordinator}`) }, { title: "Next offset", numeric: true, cell: (one) => grouped(one.next_offset) }, { title: "Log end", numeric: true, cell: (one) => grouped(one.log_end) },
          { title: "Behind", numeric: true, cell: (one) => grouped(one.lag_entries) }, { title: "Freshness", numeric: true, cell: (one) => duration(one.freshness_ms) }, { title: "Epoch", numeric: true, cell: (one) => one.epoch ?? "–" },
          { title: "Totals since", numeric: true, cell: (one) => grouped(one.from_offset) }, { title: "Last merge", numeric: true, cell: (one) => h("time", { datetime: iso(one.merged_ms) }, moment(one.merged_ms)) }], data.heads)),
        details("totals", "All totals, exact", facts(Object.entries(data.totals).map(([name, total]) => [name, grouped(total.digits), { "data-total": name }]), { class: "facts totals" })));
      for (const one of rest.querySelectorAll("details")) one.open = open.includes(one.dataset.key);
      return null;
    },
  });
}
