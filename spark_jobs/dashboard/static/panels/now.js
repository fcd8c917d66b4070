// The numbers at the top: what happens now as rates, what happened so far to the last digit.

import { h } from "/static/dom.js";
import { amount, bytes, counted, duration, grouped } from "/static/format.js";

const TILES = [
  { id: "files", title: "Files committed", show: amount },
  { id: "batches", title: "Batches", show: amount },
  { id: "records", title: "Records", show: amount },
  { id: "bytes", title: "Data", show: bytes },
];

export class Now {
  constructor() {
    this.cells = {};
    const tile = (id, title, link) => {
      const big = h("strong", {}, "–");
      const small = h("span", { class: "exact" }, "\u00a0");
      this.cells[id] = { big, small, tile: h("a", { class: "tile", id: `tile-${id}`, href: link }, h("span", { class: "title" }, title), big, small) };
      return this.cells[id].tile;
    };
    this.element = h("div", { class: "tiles", id: "tiles" },
      TILES.map(({ id, title }) => tile(id, title, "#panel-activity")),
      tile("lag", "Monitor behind", "#panel-monitor"), tile("audit", "Audit", "#panel-findings"));
  }

  update({ numbers }) {
    if (!numbers) {
      for (const { big, small, tile } of Object.values(this.cells)) {
        big.textContent = "–";
        small.textContent = "\u00a0";
        delete tile.dataset.level;
      }
      return;
    }
    for (const { id, title, show } of TILES) {
      const total = numbers.totals[id];
      const { big, small, tile } = this.cells[id];
      big.replaceChildren(show(numbers.rates[id]), h("small", {}, "/s"));
      // Rounded only where the digits would not fit; all of them are one look away.
      small.textContent = id === "bytes" ? `${bytes(total.value)} in all` : `${grouped(total.digits)} in all`;
      small.dataset.exact = total.digits;
      tile.title = `${title}: ${total.digits} ${numbers.whole_log ? "since the log began" : "since the monitor started"}`;
    }
    const { lag, totals } = numbers;
    const unobserved = lag.unobserved_ms !== null;
    this.put("lag", duration(unobserved ? lag.unobserved_ms : lag.freshness_ms), unobserved ? "since the log was last watched" : lag.entries ? `${counted(lag.entries, "entry", "entries")} to read` : "everything is read",
      unobserved ? "bad" : "");
    const wrong = Number(numbers.open_findings.digits), unread = Number(totals.quarantined.digits);
    this.put("audit", wrong ? grouped(numbers.open_findings.digits) : "clean", unread ? `${grouped(unread)} unreadable` : wrong ? (wrong === 1 ? "finding" : "findings") : counted(totals.entries.digits, "entry", "entries"),
      wrong ? "bad" : unread ? "warning" : "good");
    this.cells.audit.small.dataset.exact = totals.entries.digits;
  }

  put(id, big, small, level) {
    const cell = this.cells[id];
    cell.big.textContent = big;
    cell.small.textContent = small;
    cell.tile.dataset.level = level;
  }
}
