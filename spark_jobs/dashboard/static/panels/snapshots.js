// Snapshots of every coordinator, and transactions that are open.

import { details, h, table } from "/static/dom.js";
import { bytes, counted, duration, grouped } from "/static/format.js";
import { Panel } from "/static/panel.js";

export function snapshotsPanel() {
  return new Panel({
    id: "snapshots", title: "Snapshots and transactions", everyMs: () => 4000, load: () => "snapshots",
    draw(data, panel) {
      const { coordinators: all, open_transactions: open } = data;
      panel.count(0);
      if (!all.length) return [h("p", { class: "none" }, "No coordinator yet.")];
      const taken = all.filter((one) => one.snapshots);
      const oldest = Math.max(...taken.map((one) => one.age_ms));
      const summary = taken.length ? `${taken.length} of ${counted(all.length, "coordinator")} ${taken.length === 1 ? "has" : "have"} a snapshot; the oldest of the newest was taken ${duration(oldest)} ago.` : "No snapshot is in the log: a new replica reads it from the beginning.";
      return [h("p", { class: "note" }, summary),
        taken.length ? table("Newest snapshots", [
          { title: "Coordinator", numeric: true, cell: (one) => one.coordinator }, { title: "Ends at", numeric: true, cell: (one) => (one.end_offset === null ? "–" : h("span", { title: `${one.location}\ndigest ${one.digest}` }, grouped(one.end_offset))) },
          { title: "Entries since", numeric: true, cell: (one) => (one.entries_since === null ? "–" : grouped(one.entries_since)) }, { title: "Size", numeric: true, cell: (one) => bytes(one.size_bytes) },
          { title: "Age", numeric: true, cell: (one) => duration(one.age_ms) }], all) : null,
        open.length ? h("div", {}, h("h3", {}, "Open transactions"), table("Open transactions", [
          { title: "Transaction", wide: true, cell: (one) => one.name }, { title: "Coordinator", numeric: true, cell: (one) => one.coordinator }, { title: "Since offset", numeric: true, cell: (one) => grouped(one.offset) },
          { title: "For", numeric: true, cell: (one) => duration(one.age_ms) }], open)) : h("p", { class: "note" }, "No transaction is open."),
        taken.length ? details("locations", "Where they are", h("ul", { class: "keys" }, taken.map((one) => h("li", {}, h("code", {}, one.location))))) : null];
    },
  });
}
