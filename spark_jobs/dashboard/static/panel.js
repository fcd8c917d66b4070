// One panel: a card that loads its JSON when it is seen and something changed, and draws it.

import { h, replace } from "/static/dom.js";
import { grouped } from "/static/format.js";

// `load` names the answer ("activity?range=300"), `draw(data, body)` returns elements or draws by itself and returns null.
// `everyMs()` is the shortest pause between two loads; a `moving` panel is loaded again although the store did not change.
export class Panel {
  constructor({ id, title, help, load, draw, actions = [], everyMs = () => 2000, moving = false, size = "" }) {
    Object.assign(this, { id, load, draw, everyMs, moving, shown: null, version: null, loadedMs: 0, seen: false, text: null });
    this.badge = h("span", { class: "badge", hidden: true });
    this.body = h("div", { class: "body" }, h("p", { class: "none" }, "Loading…"));
    this.failure = h("p", { class: "failure", hidden: true, role: "status" });
    this.heading = document.createTextNode(title);
    this.element = h("section", { class: `card ${size}`, id: `panel-${id}`, "aria-labelledby": `title-${id}`, tabindex: -1 },
      h("div", { class: "head" }, h("h2", { id: `title-${id}`, title: help }, this.heading, this.badge), h("div", { class: "actions" }, actions)),
      this.failure, this.body);
  }

  // Load if need be. `version` is that of what is shown behind; `force` after the question itself changed.
  // What nobody sees is asked for once, so that a print of the page has it.
  async refresh(version, force = false) {
    const now = Date.now();
    const address = this.load();
    const asked = address !== this.shown;
    if (!this.seen && (this.shown !== null || this.element.hidden)) return;
    if (!force && !asked && (now - this.loadedMs < this.everyMs() || (version === this.version && !this.moving))) return;
    this.request?.abort();
    const request = new AbortController();
    this.request = request;
    [this.loadedMs, this.version, this.shown] = [now, version, address];
    let answer, text;
    try {
      answer = await fetch(`/api/${address}`, { signal: request.signal, headers: { Accept: "application/json" } });
      text = await answer.text();
      this.version = answer.headers.get("X-Store-Version") ?? version; // an answer that is dear to make may be older than the news
    } catch (error) {
      if (error.name === "AbortError") return;
      this.version = null; // the connection is lost: the head of the page says so
      this.element.classList.add("old");
      return;
    }
    try {
      if (!answer.ok) throw new Error(JSON.parse(text).error ?? `status ${answer.status}`);
      this.failure.hidden = true;
      this.element.classList.remove("old");
      if (text !== this.text || asked || force) this.render(text);
    } catch (error) {
      this.version = null;
      this.element.classList.add("old");
      this.failure.textContent = `Cannot be shown: ${error.message}`;
      this.failure.hidden = false;
    }
  }

  render(text) {
    const selection = getSelection();
    if (this.text !== null && !selection.isCollapsed && this.body.contains(selection.anchorNode)) return; // somebody is copying
    this.text = text;
    const drawn = this.draw(JSON.parse(text), this);
    if (drawn) replace(this.body, ...drawn);
    this.element.dataset.ready = "";
  }

  retitle(title) {
    this.heading.textContent = title;
  }

  count(number, kind = "") {
    this.badge.hidden = !number;
    this.badge.textContent = number ? String(number) : "";
    this.badge.dataset.kind = kind;
  }
}

// Buttons to walk through the pages of a table whose place is kept in `name` of the state.
export function pager({ name, offset, limit, count, unit, go }) {
  const page = Math.floor(offset / limit);
  const last = Math.max(0, Math.ceil(count / limit) - 1);
  const button = (to, label, text, off) =>
    h("button", { type: "button", "data-key": `${name}-${label}`, "aria-label": label, disabled: off, onclick: () => go(to) }, text);
  const shown = `${grouped(count ? offset + 1 : 0)}–${grouped(Math.min(count, offset + limit))} of ${grouped(count)} ${unit}`;
  return h("div", { class: "pager", role: "group", "aria-label": `Pages of ${unit}` },
    button(0, "first page", "«", page === 0), button(page - 1, "previous page", "‹", page === 0), h("span", { role: "status" }, shown),
    button(page + 1, "next page", "›", page >= last), button(last, "last page", "»", page >= last));
}
