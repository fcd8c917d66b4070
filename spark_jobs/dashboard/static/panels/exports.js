// Exports of topics to tables: how far behind each is, and when retention takes a record that its table does not have.

import { h, table } from "/static/dom.js";
import { counted, duration, grouped } from "/static/format.js";
import { Panel } from "/static/panel.js";

const NEAR_S = 6 * 3600; // as the alert DisklessExportRetentionNear
const LATE_S = 3600; // as DisklessExportBehind

function standing(one, nowS) {
  if (one.error) return ["bad", one.error];
  if (one.lost_records) return ["bad", `${counted(one.lost_records, "record")} lost`];
  if (one.damaged_batches) return ["bad", `${counted(one.damaged_batches, "damaged batch", "damaged batches")} left out`];
  if (one.seconds_left !== null && one.seconds_left < NEAR_S) return ["bad", "retention is near"];
  if (nowS - one.caught_up_s > LATE_S) return ["bad", one.caught_up_s ? `last caught up ${duration((nowS - one.caught_up_s) * 1000)} ago` : "has not caught up yet"];
  return ["good", one.lag_records ? "catches up" : "has all"];
}

export function exportsPanel() {
  return new Panel({
    id: "exports", title: "Exports to tables", everyMs: () => 5000, moving: true, load: () => "exports",
    draw(data, panel) {
      const rows = data.exports.map((one) => ({ ...one, standing: standing(one, data.now_ms / 1000) }));
      panel.count(rows.filter((one) => one.standing[0] === "bad").length, "bad");
      if (!rows.length) return [h("p", { class: "none" }, "No export is watched: ", h("code", {}, "diskless dashboard --exports HOST:PORT"), " names those that ", h("code", {}, "--metrics-port"), " of ", h("code", {}, "diskless tables export"), " shows.")];
      return [table("Exports", [
        { title: "Topic", wide: true, cell: (one) => h("span", { title: one.address }, one.topic || one.address) },
        { title: "State", wide: true, cell: (one) => h("span", { class: `state ${one.standing[0]}` }, one.standing[1]) },
        { title: "Behind", numeric: true, help: "Records that the table does not have yet", cell: (one) => (one.error ? "–" : grouped(one.lag_records)) },
        { title: "Retention", numeric: true, help: "When it takes the next record that the table does not have", cell: (one) => (one.error || one.seconds_left === null ? "–" : one.seconds_left < 0 ? "due" : `in ${duration(one.seconds_left * 1000)}`) },
        { title: "Repeated", numeric: true, help: "Passes that an outage ended", cell: (one) => (one.error ? "–" : grouped(one.failures)) }], rows)];
    },
  });
}
