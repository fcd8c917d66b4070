// What happened in the range, as a list; the same are marks on every chart.

import { showMarks } from "/static/charts.js";
import { details, h, table } from "/static/dom.js";
import { counted, entry, iso, moment } from "/static/format.js";
import { Panel } from "/static/panel.js";
import { lookLink } from "/static/panels/look.js";
import * as state from "/static/state.js";

const KINDS = { leader: "change of leader", start: "start of a node", deployment: "deployment", level: "schema level", snapshot: "snapshot", move: "move of partitions", finding: "finding" };

export function marksPanel() {
  return new Panel({
    id: "marks", title: "What happened", size: "wide", moving: true, everyMs: state.pauseMs, help: "Changes of leaders, starts of nodes, schema levels, snapshots, moves of partitions and findings in the range",
    load: () => `marks?${state.rangeParameters()}`,
    draw({ rows, is_cut: cut }) {
      showMarks(rows);
      if (!rows.length) return [h("p", { class: "none" }, "Nothing in this range: no change of leader, no start of a node, no snapshot, no move of a partition, no finding.")];
      const counts = Object.entries(KINDS).map(([kind, name]) => [kind, name, rows.filter((row) => row.kind === kind).length]).filter(([, , count]) => count);
      return [h("ul", { class: "legend" }, counts.map(([kind, name, count]) => h("li", {}, h("span", { class: `key mark-${kind}` }), counted(count, name, name.replace(/^(\w+)/, plural))))),
        details("marks", cut ? `The last ${rows.length}` : counted(rows.length, "event"), table("What happened", [
          { title: "Time", cell: (row) => h("time", { datetime: iso(row.at_ms), title: iso(row.at_ms) }, moment(row.at_ms)) },
          { title: "What", wide: true, cell: (row) => row.text },
          { title: "Entry", cell: (row) => lookLink(entry(row.coordinator, row.offset), `entry/${row.coordinator}@${row.offset}`) }], rows))];
    },
  });
}

const plural = (word) => `${word}s`;
