// What the page shows is in its address, so that a reload, a bookmark or a colleague sees the same.

const DEFAULTS = { range: "300", split: "total", topic: "", q: "", sort: "rate", page: "0", findings: "0", quarantine: "0", migrating: "0" };
const ALLOWED = { range: ["300", "3600", "86400"], split: ["total", "coordinator", "topic"] };

const listeners = new Set();
let values = read();

function read() {
  const found = { ...DEFAULTS };
  for (const [name, value] of new URLSearchParams(location.hash.slice(1))) {
    if (name in DEFAULTS && (!ALLOWED[name] || ALLOWED[name].includes(value))) found[name] = value.slice(0, 300);
  }
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

export const onChange = (listener) => listeners.add(listener);

addEventListener("hashchange", () => {
  if (!location.hash.includes("=")) return; // a link to a part of the page
  values = read();
  for (const listener of listeners) listener();
});
