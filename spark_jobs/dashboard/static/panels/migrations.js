// Classic topics that become diskless: what still waits for its start, and what operators took back or lowered.

import { h, table } from "/static/dom.js";
import { counted, duration, entry, grouped, iso, moment } from "/static/format.js";
import { Panel, pager } from "/static/panel.js";
import * as state from "/static/state.js";

const LIMIT = 12;

const offset = (value) => (value === null ? "–" : grouped(value));

export function migrationsPanel() {
  return new Panel({
    id: "migrations", title: "Migrations", size: "wide", moving: true, help: "Classic topics that become diskless: records before the start are in Kafka's own log",
    load: () => `migrations?${new URLSearchParams({ offset: Number(state.get("migrating")) * LIMIT, limit: LIMIT })}`,
    draw(data, panel) {
      const { count, topics, partitions, steps } = data;
      panel.count(count, "warning");
      return [h("p", { class: "note" }, summary(data)),
        count ? [topicsTable(topics), h("h3", {}, "Partitions"), partitionsTable(partitions.rows)] : null,
        partitions.count > LIMIT || (count && partitions.offset) ? pager({ name: "migrating", unit: "partitions", count: partitions.count, offset: partitions.offset, limit: partitions.limit, go: (page) => state.set({ migrating: String(page) }) }) : null,
        steps.length ? [h("h3", {}, "Resets and repairs"), stepsTable(steps)] : null];
    },
  });
}

function summary({ count, migrated }) {
  const done = migrated.topics ? ` ${counted(migrated.topics, "topic")} with ${counted(migrated.partitions, "partition")} ${migrated.topics === 1 ? "was" : "were"} migrated.` : "";
  return (count ? `${counted(count, "topic")} ${count === 1 ? "has" : "have"} partitions that take no batches before their start is set.` : "No migration is under way.") + done;
}

const topicsTable = (rows) => table("Topics under way", [
  { title: "Topic", wide: true, cell: (row) => row.topic },
  { title: "Waiting", numeric: true, cell: (row) => grouped(row.pending) },
  { title: "Diskless", numeric: true, cell: (row) => grouped(row.initialised) },
  { title: "Waiting for", help: "The partition that has waited longest", numeric: true, cell: (row) => duration(row.waiting_ms) }], rows);

const partitionsTable = (rows) => table("Partitions of topics under way", [
  { title: "Partition", wide: true, cell: (row) => `${row.topic}-${row.partition}` },
  { title: "State", cell: (row) => (row.was_reset ? "waits again" : row.state === "pending" ? "waits" : "diskless") },
  { title: "Start (B0)", numeric: true, cell: (row) => offset(row.start_offset) },
  { title: "Classic from", numeric: true, cell: (row) => offset(row.prefix_start) },
  { title: "Leader epoch", numeric: true, cell: (row) => offset(row.leader_epoch) },
  { title: "Waiting for", numeric: true, cell: (row) => duration(row.waiting_ms) },
  { title: "Coordinator", numeric: true, cell: (row) => row.coordinator }], rows);

const stepsTable = (rows) => table("Resets and repairs", [
  { title: "Partition", wide: true, cell: (row) => `${row.topic}-${row.partition}` },
  { title: "Step", cell: (row) => row.step },
  { title: "Start before", numeric: true, cell: (row) => offset(row.start_before) },
  { title: "Start after", numeric: true, cell: (row) => offset(row.start_after) },
  { title: "Leader epoch", numeric: true, cell: (row) => offset(row.leader_epoch) },
  { title: "When", numeric: true, cell: (row) => h("time", { datetime: iso(row.append_ms), title: `${iso(row.append_ms)}, ${entry(row.coordinator, row.offset)}` }, moment(row.append_ms)) }], rows);
