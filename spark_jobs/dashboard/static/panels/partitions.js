// User partitions and topics. The server searches, sorts and cuts; a page of the table is all that is here.

import { bar, h, table } from "/static/dom.js";
import { amount, bytes, counted, grouped, iso, moment, percent } from "/static/format.js";
import { Panel, pager } from "/static/panel.js";
import { lookLink } from "/static/panels/look.js";
import * as state from "/static/state.js";

const LIMIT = 15;

export function partitionsPanel() {
  const input = h("input", { type: "search", id: "search", placeholder: "Search: orders, orders-7", "aria-label": "Search partitions by topic", autocomplete: "off", spellcheck: "false" });
  input.value = state.get("q");
  let timer;
  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => state.set({ q: input.value.trim(), page: "0" }), 200);
  });
  state.onChange(() => {
    if (document.activeElement !== input) input.value = state.get("q");
  });
  const sorts = { name: "Partition", rate: "Batches/s", batches: "Batches", records: "Records", bytes: "Data", offset: "High watermark", last: "Last" };
  const title = (sort) => h("button", { type: "button", class: "sort", "data-key": `sort-${sort}`, "aria-pressed": String(state.get("sort") === sort), onclick: () => state.set({ sort, page: "0" }) }, sorts[sort]);
  return new Panel({
    id: "partitions", title: "Partitions", size: "wide", moving: true, actions: [input], everyMs: () => 4000, help: "The partitions of users' topics; rates are those of the last whole minute",
    load: () => `partitions?${new URLSearchParams({ topic: state.get("topic"), search: state.get("q"), sort: state.get("sort"), offset: Number(state.get("page")) * LIMIT, limit: LIMIT })}`,
    draw(data) {
      const most = Math.max(...data.rows.map((row) => row.batches_per_s), 0.001);
      const columns = [
        { title: title("name"), wide: true, cell: (row) => lookLink(`${row.topic}-${row.partition}`, `partition/${row.topic}/${row.partition}`) },
        { title: title("rate"), numeric: true, cell: (row) => (row.batches_per_s === null ? "–" : [amount(row.batches_per_s), bar([{ share: row.batches_per_s / most, kind: "fill-1" }], "")]) },
        { title: title("batches"), numeric: true, cell: (row) => grouped(row.batches) },
        { title: title("records"), numeric: true, cell: (row) => grouped(row.records) },
        { title: title("bytes"), numeric: true, cell: (row) => h("span", { title: `${row.bytes} bytes` }, bytes(row.bytes)) },
        { title: "Log start", numeric: true, cell: (row) => (row.start_offset === null ? "–" : grouped(row.start_offset)) },
        { title: title("offset"), numeric: true, cell: (row) => (row.next_offset === null ? "–" : grouped(row.next_offset)) },
        { title: title("last"), numeric: true, cell: (row) => h("time", { datetime: iso(row.last_append_ms), title: iso(row.last_append_ms) }, moment(row.last_append_ms)) },
        { title: "Coordinator", numeric: true, cell: (row) => h("span", row.moved_ms === null ? {} : { title: `since ${iso(row.moved_ms)}` }, lookLink(row.coordinator, `coordinator/${row.coordinator}`), row.moving_to === null ? "" : `, moves to ${row.moving_to}`) },
      ];
      const nothing = state.get("q") || state.get("topic") ? "No partition is called that." : "No partition yet.";
      return [skew(data.skew), table("Partitions", columns, data.rows, nothing),
        data.count > LIMIT ? pager({ name: "partitions", unit: "partitions", count: data.count, offset: data.offset, limit: data.limit, go: (page) => state.set({ page: String(page) }) })
          : h("p", { class: "note" }, `${counted(data.count, "partition")}.`)];
    },
  });
}

function skew(one) {
  const minute = one.is_current ? "In the last whole minute" : `In the last minute that is known, ${moment(one.minute * 60000)},`;
  if (one.top1 === null) return h("p", { class: "note" }, `${minute} there was no batch.`);
  return h("p", { class: "note" }, `${minute} ${grouped(one.active)} of ${counted(one.partitions, "partition")} took part: the hottest had ${percent(one.top1)} of the batches, the ten hottest ${percent(one.top10)}; half of all came from ${grouped(one.half)}.`);
}

export function topicsPanel() {
  return new Panel({
    id: "topics", title: "Topics", everyMs: () => 4000, help: "The largest; sums over all their partitions", load: () => "topics?limit=12",
    draw(data) {
      return [table("Topics", [
        { title: "Topic", wide: true, cell: (row) => [lookLink(row.topic, `topic/${row.topic}`), row.deleted_ms ? " (deleted)" : ""] },
        { title: "Partitions", numeric: true, cell: (row) => grouped(row.partitions) },
        { title: "Batches", numeric: true, cell: (row) => grouped(row.batches) },
        { title: "Records", numeric: true, cell: (row) => grouped(row.records) },
        { title: "Data", numeric: true, cell: (row) => h("span", { title: `${row.bytes} bytes` }, bytes(row.bytes)) },
      ], data.rows, "No topic yet."), data.count > data.rows.length ? h("p", { class: "note" }, `The ${data.rows.length} largest of ${grouped(data.count)}.`) : null];
    },
  });
}
