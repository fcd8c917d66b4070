// WAL files: where they are in their life, what nearly empty ones hold, which hand-overs wait; and who uploads them.

import { bar, details, h, table } from "/static/dom.js";
import { amount, bytes, counted, duration, grouped, moment, percent } from "/static/format.js";
import { Panel } from "/static/panel.js";
import { lookLink } from "/static/panels/look.js";
import * as state from "/static/state.js";

const STATES = {
  live: ["have live batches", "fill-1"], empty: ["no batch is live: waiting and deletable ones together", ""],
  deletable: ["empty: to be deleted when they are old enough", "fill-4"], waiting: ["empty, not yet the turn of the owner that deletes them", "fill-3"],
  removed: ["deleted from storage", "fill-8"], fenced: ["may never be committed any more", "fill-5"],
};

const PARTS = ["deletable", "waiting"];

export function filesPanel() {
  return new Panel({
    id: "files", title: "Files", everyMs: () => 4000, help: "The life of the WAL files, as the log tells it", load: () => "files",
    draw(data) {
      const all = data.states.reduce((sum, one) => sum + one.files, 0);
      if (!all) return [h("p", { class: "none" }, "No file yet.")];
      const { nearly_empty: nearly, hand_overs: waiting, stored, empty } = data;
      // Behind live ones what waiting and deletable ones are together.
      const lines = data.states.flatMap((one) => (one.state === "live" ? [one, { ...empty, state: "empty" }] : [one]));
      const parts = data.states.map((one) => ({ share: one.files / all, kind: STATES[one.state]?.[1] ?? "fill-7", title: `${one.state}: ${one.files}` }));
      return [bar(parts, data.states.map((one) => `${one.files} ${one.state}`).join(", ")),
        table("Files by state", [
          { title: "State", cell: (one) => h("span", { title: STATES[one.state]?.[0], class: PARTS.includes(one.state) ? "state-name part" : "state-name" },
            h("span", { class: one.state === "empty" ? "key none-of" : `key ${(STATES[one.state]?.[1] ?? "fill-7").replace("fill", "line")}` }), one.state) },
          { title: "Files", help: "one with batches of several coordinators counts once, in the state nearest to life", numeric: true, cell: (one) => grouped(one.files) },
          { title: "Size", numeric: true, cell: (one) => h("span", { title: `${one.file_bytes} bytes` }, one.files ? bytes(one.file_bytes) : "–") },
          { title: "Still live", numeric: true, cell: (one) => (one.live_bytes ? bytes(one.live_bytes) : "–") },
        ], lines),
        h("p", { class: "note" }, "In the object store: ", h("b", { id: "stored-files", "data-exact": stored.files }, counted(stored.files, "file")), ", ",
          h("b", { id: "stored-bytes", "data-exact": stored.file_bytes, title: `${stored.file_bytes} bytes` }, bytes(stored.file_bytes)), ", each counted once. To be freed: ",
          h("b", { id: "empty-files", "data-exact": empty.files }, counted(empty.files, "empty file")), ", ",
          h("b", { id: "empty-bytes", "data-exact": empty.file_bytes, title: `${empty.file_bytes} bytes` }, bytes(empty.file_bytes)),
          empty.files ? `, the oldest since ${moment(empty.oldest_ms)}.` : "."),
        h("p", { class: "note" }, nearly.files ? `${counted(nearly.files, "live file")} ${nearly.files === 1 ? "is" : "are"} nearly empty (at most ${nearly.percent} % live) and ${nearly.files === 1 ? "holds" : "hold"} ${bytes(nearly.file_bytes)} for ${bytes(nearly.live_bytes)}.` : "No live file is nearly empty."),
        waiting.length ? details("hand-overs", `${waiting.length === 20 ? "20 or more hand-overs wait" : `${counted(waiting.length, "hand-over")} ${waiting.length === 1 ? "waits" : "wait"}`}, the oldest for ${duration(waiting[0].age_ms)}`, table("Hand-overs", [
          { title: "Object", wide: true, cell: (one) => lookLink(one.object_key, `file/${one.object_key}`) }, { title: "From coordinator", numeric: true, cell: (one) => one.coordinator },
          { title: "To coordinator", numeric: true, cell: (one) => one.next_owner ?? "–" }, { title: "For", numeric: true, cell: (one) => duration(one.age_ms) }], waiting)) : h("p", { class: "note" }, "No hand-over waits."),
        data.emptiest.length ? details("emptiest", "Files that hold the most dead bytes", table("Emptiest files", [
          { title: "Object", wide: true, cell: (one) => lookLink(one.object_key, `file/${one.object_key}`) }, { title: "Size", numeric: true, cell: (one) => bytes(one.file_bytes) },
          { title: "Live", numeric: true, cell: (one) => percent(one.live_bytes / one.file_bytes) }], data.emptiest)) : null];
    },
  });
}

export function uploadersPanel() {
  return new Panel({
    id: "uploaders", title: "Uploaders", help: "Brokers or gateways, by rack; clients that write by themselves name none", everyMs: () => 2 * state.pauseMs(),
    load: () => `uploaders?${state.rangeParameters()}`,
    draw(data) {
      if (!data.uploaders.length) return [h("p", { class: "none" }, "No upload in this range.")];
      const whole = data.racks.reduce((sum, rack) => sum + rack.bytes, 0) || 1;
      const rackTable = table("Racks", [
        { title: "Rack", cell: (rack) => rack.rack || "unknown" },
        { title: "Share", numeric: true, cell: (rack) => [percent(rack.bytes / whole), bar([{ share: rack.bytes / whole, kind: "fill-2" }], "")] },
        { title: "Uploaders", numeric: true, cell: (rack) => rack.uploaders }, { title: "Files", numeric: true, cell: (rack) => grouped(rack.files) },
        { title: "Data", numeric: true, cell: (rack) => bytes(rack.bytes) }], data.racks);
      const list = details("uploaders-all", counted(data.uploader_count, "uploader"), table("Uploaders", [
        { title: "Uploader", cell: (one) => (one.uploader < 0 ? "not named" : one.host ? `${one.uploader} (${one.host})` : one.uploader) }, { title: "Rack", cell: (one) => one.rack ?? "unknown" },
        { title: "Files", numeric: true, cell: (one) => grouped(one.files) }, { title: "Batches/file", numeric: true, cell: (one) => (one.files ? amount(one.batches / one.files) : "–") },
        { title: "Data", numeric: true, cell: (one) => bytes(one.bytes) }, { title: "Fill", numeric: true, cell: (one) => (one.file_bytes ? percent(one.bytes / one.file_bytes) : "–") }], data.uploaders));
      const shared = data.files ? `${grouped(data.multi_owner_files)} of ${counted(data.files, "file")} (${percent(data.multi_owner_files / data.files)}) ${data.multi_owner_files === 1 ? "belongs" : "belong"} to more than one coordinator.` : "";
      return [rackTable, h("p", { class: "note" }, shared), list];
    },
  });
}
