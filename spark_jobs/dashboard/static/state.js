// What the page shows is in its address, so that a reload, a bookmark or a colleague sees the same.
// `from` and `to`, as ISO times, are a range that stays; without them `range` seconds back from now are shown.

const DEFAULTS = { look: "", range: "300", from: "", to: "", split: "total", topic: "", q: "", sort: "rate", page: "0", findings: "0", quarantine: "0", migrating: "0" };
const WIDTH_S_MIN = 10, WIDTH_S_MAX = 86400;
const ALLOWED = { range: ["300", "3600", "86400"], split: ["total", "coordinator", "topic"] };

const listeners = new Set();
let values = read();

function read() {
  const found = { ...DEFAULTS };
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    if (name in DEFAULTS && (!ALLOWED[name] || ALLOWED[name].includes(value))) found[name] = value.slice(0, 1100);
  }
  const width = (Date.parse(found.to) - Date.parse(found.from)) / 1000;
  if (!(width >= WIDTH_S_MIN && width <= WIDTH_S_MAX)) found.from = found.to = "";
  return found;
}

export const get = (name) => values[name];

export function set(changes) {
  const next = { ...values, ...changes };
  if (Object.keys(next).every((name) => next[name] === values[name])) return;
  values = next;
  const shown = Object.entries(values).filter(([name, value]) => value !== DEFAULTS[name]);
  history.replaceState(null, "", shown.length ? `#${new URLSearchParams(shown)}` : location.pathname);
  for (const listener of listeners) listener();
}

// The range that stays, in seconds; null while the page shows the last seconds.
export const fixed = () => (values.from ? [values.from, values.to].map((time) => Math.round(Date.parse(time) / 1000)) : null);

// Show a range, in seconds: as wide as it may be, and no wider or narrower.
export function choose(one, other) {
  const [first, last] = [Math.floor(Math.min(one, other)), Math.ceil(Math.max(one, other))];
  const end = first + Math.min(WIDTH_S_MAX, Math.max(WIDTH_S_MIN, last - first));
  set({ from: text(first), to: text(end) });
}

const text = (second) => new Date(second * 1000).toISOString().replace(".000", "");

// The range for the address of a panel.
export function rangeParameters(more = {}) {
  const [from, to] = fixed() ?? [];
  return new URLSearchParams({ ...(from === undefined ? { range: values.range } : { from, to }), ...more });
}

// How long a panel with much to read rests between two loads; a range that stays changes seldom.
export const pauseMs = () => (fixed() ? 10000 : { 300: 1500, 3600: 8000, 86400: 30000 }[values.range]);

export const onChange = (listener) => listeners.add(listener);

addEventListener("hashchange", () => {
  if (!location.hash.includes("=")) return; // a link to a part of the page
  values = read();
  for (const listener of listeners) listener();
});
