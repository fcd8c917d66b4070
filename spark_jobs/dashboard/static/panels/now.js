// The numbers at the top: what happens now as rates, what happened so far to the last digit.

import { h } from "/static/dom.js";
import { amount, bytes, counted, duration, grouped, moment } from "/static/format.js";

const TILES = [
  { id: "files", title: "Files", show: amount },
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

  // What is not known now keeps its last value, grey and with its age; a number that was never known is none.
  update({ numbers, now_ms }) {
    if (!numbers) {
      for (const { big, small, tile } of Object.values(this.cells)) {
        big.textContent = "–";
        small.textContent = "\u00a0";
        delete tile.dataset.level;
        delete tile.dataset.old;
      }
      return;
    }
    const { known_until_ms: until, is_current: current } = numbers;
    for (const { tile } of Object.values(this.cells)) tile.toggleAttribute("data-old", !current);
    for (const { id, title, show } of TILES) {
      const total = numbers.totals[id];
      const { big, small, tile } = this.cells[id];
      big.replaceChildren(show(numbers.rates[id]), h("small", {}, current ? "/s" : `/s, ${duration(now_ms - until)} ago`));
      // Rounded only where the digits would not fit; all of them are one look away.
      small.textContent = `${id === "bytes" ? bytes(total.value) : grouped(total.digits)} in all${current ? "" : ` until ${moment(until)}`}`;
      small.dataset.exact = total.digits;
      tile.title = `${title}: ${total.digits} ${numbers.whole_log ? "since the log began" : "since the monitor started"}`;
    }
    const { lag, totals } = numbers;
    const unobserved = lag.unobserved_ms !== null;
    this.put("lag", duration(unobserved ? lag.unobserved_ms : current ? lag.freshness_ms : now_ms - until),
      unobserved ? "since the log was last watched" : lag.entries ? `${counted(lag.entries, "entry", "entries")} to read` : "everything is read", unobserved ? "bad" : "");
    const wrong = Number(numbers.open_findings.digits), unread = Number(totals.quarantined.digits);
    const clean = current ? "clean" : "was clean";
    const read = `${counted(totals.entries.digits, "entry", "entries")}${current ? "" : ` until ${moment(until)}`}`;
    this.put("audit", wrong ? grouped(numbers.open_findings.digits) : clean, unread ? `${grouped(unread)} unreadable` : wrong ? (wrong === 1 ? "finding" : "findings") : read,
      wrong ? "bad" : unread ? "warning" : current ? "good" : "");
    this.cells.audit.small.dataset.exact = totals.entries.digits;
  }

  put(id, big, small, level) {
    const cell = this.cells[id];
    cell.big.textContent = big;
    cell.small.textContent = small;
    cell.tile.dataset.level = level;
  }
}
