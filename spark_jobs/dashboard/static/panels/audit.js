// What is wrong: findings of the audit, entries that cannot be read, whether log and service agree, objects nobody knows.

import { command, details, facts, h, table } from "/static/dom.js";
import { bytes, counted, entry, grouped, iso, moment, words } from "/static/format.js";
import { Panel, pager } from "/static/panel.js";
import { acknowledgeButton } from "/static/panels/acknowledge.js";
import { lookLink } from "/static/panels/look.js";
import * as state from "/static/state.js";

const LIMIT = 10;
const when = (ms) => h("time", { datetime: iso(ms), title: iso(ms) }, moment(ms));

export function findingsPanel() {
  return new Panel({
    id: "findings", title: "Findings", size: "wide", moving: true, help: "Violations of the log's rules, derived from the log alone",
    load: () => `findings?${new URLSearchParams({ offset: state.get("findings"), limit: LIMIT })}`,
    draw(data, panel) {
      panel.count(data.open, "bad");
      const noted = notes(data.notes);
      if (!data.count && data.known_until_ms === null) return [h("p", { class: "none" }, "Nothing is audited yet.")];
      if (!data.count) return [h("p", { class: data.is_current ? "none good" : "none" }, `The audit found nothing${data.is_current ? "" : ` until ${moment(data.known_until_ms)}; what follows is not known`}: offsets, sequences, byte ranges, epochs and transactions are as they must be.`), noted];
      const rules = h("ul", { class: "chips" }, data.rules.map(({ rule, count }) => h("li", {}, words(rule), " ", h("b", {}, grouped(count)))));
      const list = h("ol", { class: "findings" }, data.rows.map(finding));
      const acknowledged = data.count - data.open;
      const told = h("p", { class: `none ${data.open ? "bad" : data.is_current ? "good" : ""}`, id: "findings-state" }, data.open ? `${counted(data.open, "finding")} to look at` : data.is_current ? "Nothing new" : `Nothing new until ${moment(data.known_until_ms)}`, acknowledged ? `, ${grouped(acknowledged)} acknowledged` : "", ". ",
        data.open ? acknowledgeButton("acknowledge", { all: true }, data.open, "acknowledge-all") : null);
      return [told, rules, list, data.kept > LIMIT ? pager({ name: "findings", unit: "findings", count: data.kept, offset: data.offset, limit: data.limit, go: (page) => state.set({ findings: String(page * LIMIT) }) }) : null,
        data.count > data.kept ? h("p", { class: "note" }, `${grouped(data.count)} were counted, ${grouped(data.kept)} of them kept.`) : null, noted];
    },
  });
}

function notes(list) {
  if (!list.length) return null;
  return details("notes", `${list.length === 20 ? "The last 20 notes" : `${list.length} ${list.length === 1 ? "note" : "notes"}`}: worth knowing, not wrong`, h("ul", { class: "keys" }, list.map((one) => h("li", {}, h("span", { class: "where" }, entry(one.coordinator, one.offset)), ` ${one.text}, `, when(one.seen_ms)))));
}

const about = (row) => row.topic && `${row.topic}${row.partition === null ? "" : `-${row.partition}`}`;

function finding(row) {
  const known = [["Entry", lookLink(entry(row.coordinator, row.offset), `entry/${row.coordinator}@${row.offset}`)], ["Topic", row.topic && lookLink(about(row), row.partition === null ? `topic/${row.topic}` : `partition/${row.topic}/${row.partition}`)],
    ["Acknowledged", row.acknowledged && `${moment(row.acknowledged.at_ms)} by ${row.acknowledged.who}: ${row.acknowledged.reason}`],
    ["Producer", row.producer_id !== null && lookLink(row.producer_id, `producer/${row.producer_id}`)], ["Object", row.object_key && lookLink(row.object_key, `file/${row.object_key}`)], ["Expected", row.expected && grouped(row.expected)], ["Found", row.found && grouped(row.found)], ["Seen", moment(row.seen_ms)]];
  const acted = row.acknowledged ? acknowledgeButton("reopen", { ids: [row.id] }, 1, `reopen-${row.id}`) : acknowledgeButton("acknowledge", { ids: [row.id] }, 1, `acknowledge-${row.id}`);
  return h("li", { id: `finding-${row.id}`, class: row.acknowledged ? "acknowledged" : null }, details(`finding-${row.id}`,
    [h("span", { class: "rule" }, words(row.rule)), h("span", { class: "about" }, about(row)), when(row.seen_ms), h("span", { class: "where" }, entry(row.coordinator, row.offset)), h("span", { class: "what" }, row.acknowledged ? `${row.message} (acknowledged)` : row.message)],
    h("p", {}, row.meaning),
    facts(known),
    command(row.command, `command-${row.id}`),
    acted && h("p", { class: "note" }, acted)));
}

export function quarantinePanel() {
  return new Panel({
    size: "third", id: "quarantine", title: "Quarantine", help: "Entries that could not be decoded; the monitor went on without them",
    load: () => `quarantine?${new URLSearchParams({ offset: state.get("quarantine"), limit: LIMIT })}`,
    draw(data, panel) {
      panel.count(data.count, "warning");
      if (!data.count) return [h("p", { class: "none" }, "Every entry that was read could be decoded.")];
      return [h("ol", { class: "findings" }, data.rows.map((row) => h("li", {}, details(`quarantine-${row.coordinator}-${row.offset}`,
        [h("span", { class: "where" }, entry(row.coordinator, row.offset)), when(row.seen_ms), h("span", { class: "what" }, row.error)],
        h("p", {}, `${bytes(row.size_bytes)}, seen `, when(row.seen_ms), ". The first bytes:"), h("pre", { tabindex: 0, "aria-label": "first bytes" }, row.hex || "no bytes: a tombstone"))))),
      data.kept > LIMIT ? pager({ name: "quarantine", unit: "entries", count: data.kept, offset: data.offset, limit: data.limit, go: (page) => state.set({ quarantine: String(page * LIMIT) }) }) : null];
    },
  });
}

export function agreementPanel() {
  return new Panel({
    size: "third", id: "agreement", title: "Log and service agree", help: "The state rebuilt from the log alone, compared with what a replica says of itself",
    load: () => "agreement", everyMs: () => 5000,
    draw({ last_verify: last }, panel) {
      panel.count(0);
      if (!last) return [h("p", { class: "none" }, "Not compared yet: ", h("code", {}, "diskless monitor verify"), " rebuilds the state from the log and compares it with a replica's.")];
      if (last.unreadable) return [h("p", { class: "failure" }, last.unreadable)];
      const parts = last.partitions ?? [];
      const bad = parts.filter((part) => part.agree === false);
      const left = last.not_compared ?? [];
      panel.count(bad.length, "bad");
      const told = bad.length ? `They disagree in ${bad.length} of ${counted(parts.length, "comparison")}` : parts.length ? `Log and service agree in ${parts.length === 1 ? "the one comparison" : `all ${parts.length} comparisons`}` : "Nothing could be compared";
      return [h("p", { class: `none ${bad.length ? "bad" : parts.length ? "good" : ""}` }, `${told}, `, when(last.at_ms), "."),
        bad.map((part) => h("p", { class: "difference" }, h("b", {}, `Coordinator ${part.kpart} at offset ${grouped(part.offset)}${part.replica ? ` (${part.replica})` : ""}: `), part.difference || "the digests differ")),
        bad.some((part) => part.rows?.length) ? details("agreement-rows", "Rows that differ", table("Rows that differ", [
          { title: "What", cell: (row) => words(row.kind) }, { title: "Which", wide: true, cell: (row) => h("code", {}, text(row.id)) },
          { title: "In the log", wide: true, cell: (row) => h("code", {}, text(row.log)) }, { title: "In the replica", wide: true, cell: (row) => h("code", {}, text(row.replica)) }], bad.flatMap((part) => part.rows ?? []))) : null,
        left.length ? details("agreement-left", `${left.length} not compared`, h("ul", { class: "keys" }, left.map((part) => h("li", {}, `coordinator ${part.kpart}${part.replica ? ` (${part.replica})` : ""}: ${part.difference}`)))) : null,
        parts.length ? details("agreement-all", counted(parts.length, "digest"), table("Digests", [
          { title: "Coordinator", numeric: true, cell: (part) => part.kpart }, { title: "Replica", cell: (part) => part.replica ?? "–" }, { title: "At offset", numeric: true, cell: (part) => grouped(part.offset) },
          { title: "Outcome", cell: (part) => (part.agree ? "agrees" : "differs") }, { title: "Digest", wide: true, cell: (part) => h("code", {}, part.digest) }], parts)) : null];
    },
  });
}

const text = (value) => (value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));

export function objectsPanel() {
  return new Panel({
    size: "third", id: "objects", title: "Objects", help: "Whether every file with live batches has its object in the store",
    load: () => "objects", everyMs: () => 5000,
    draw({ last_objects: last }, panel) {
      panel.count(0);
      if (!last) return [h("p", { class: "none" }, "Not compared yet: ", h("code", {}, "diskless restore report --dir"), " looks for the object of every live file.")];
      if (last.unreadable) return [h("p", { class: "failure" }, last.unreadable)];
      const { missing = [], missing_files: lost = 0 } = last;
      panel.count(lost ? `${grouped(lost)} missing` : 0, "bad");
      return [h("p", { class: lost ? "none bad" : "none good" }, lost ? `${counted(lost, "file")} with live batches ${lost === 1 ? "is" : "are"} not in the object store: data is lost` : "Every live file has its object", ", looked at ", when(last.at_ms), "."),
        missing.length ? details("objects-missing", "Missing files", table("Missing files", [
          { title: "Object", wide: true, cell: (row) => lookLink(row.object_key, `file/${row.object_key}`) }, { title: "Coordinators", cell: (row) => (row.coordinators ?? []).join(", ") }], missing)) : null];
    },
  });
}
