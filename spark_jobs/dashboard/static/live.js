// The stream of events, for ever: it says when the connection is lost and since when, and comes back by itself.
// A page nobody looks at does not listen.

const SILENT_MS = 8000;
const RETRY_MS = [500, 1000, 2000, 4000];

export class Live {
  constructor({ overview, state }) {
    this.onOverview = overview;
    this.onState = state;
    this.lastId = "";
    this.lastMs = 0;
    this.attempts = 0;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.rest() : this.open()));
    addEventListener("online", () => this.reopen());
    setInterval(() => this.watch(), 1000);
    this.open();
  }

  open() {
    if (this.source || document.hidden) return;
    clearTimeout(this.timer);
    this.openedMs = Date.now();
    // EventSource sends Last-Event-ID when it comes back by itself; a new one is told by the address.
    this.source = new EventSource(`/api/events${this.lastId ? `?last=${encodeURIComponent(this.lastId)}` : ""}`);
    this.source.addEventListener("open", () => {
      this.lastMs = Date.now();
      this.attempts = 0;
      this.onState("live");
    });
    this.source.addEventListener("overview", (event) => {
      this.lastId = event.lastEventId;
      this.lastMs = Date.now();
      this.onState("live");
      this.onOverview(JSON.parse(event.data));
    });
    this.source.addEventListener("error", () => this.fail());
  }

  fail() {
    this.onState("lost", this.lastMs);
    this.close();
    const wait = RETRY_MS[Math.min(this.attempts++, RETRY_MS.length - 1)];
    this.timer = setTimeout(() => this.open(), wait);
  }

  watch() {
    if (this.source && Date.now() - Math.max(this.lastMs, this.openedMs) > SILENT_MS) this.fail();
    else if (!this.source && !document.hidden) this.onState("lost", this.lastMs);
  }

  reopen() {
    this.close();
    this.open();
  }

  rest() {
    this.close();
    clearTimeout(this.timer);
    this.onState("resting");
  }

  close() {
    this.source?.close();
    this.source = null;
  }
}
