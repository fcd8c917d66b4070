// Numbers and times as people read them. Exact numbers arrive as digits and are only grouped, never rounded.

const NARROW = "\u202f";

export const grouped = (digits) => String(digits).replace(/\B(?=(\d{3})+(?!\d))/g, NARROW);

// "1 file", "2 files"; `many` only where an s does not make it.
export const counted = (number, one, many = `${one}s`) => `${grouped(number)} ${Number(number) === 1 ? one : many}`;

const STEPS = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

function scaled(value, from, unit) {
  const [size, prefix] = STEPS.find(([size]) => Math.abs(value) >= Math.max(size, from)) ?? [1, ""];
  const number = value / size;
  const digits = size === 1 ? (Number.isInteger(value) || value >= 100 ? 0 : value >= 10 ? 1 : 2) : number >= 100 ? 0 : number >= 10 ? 1 : 2;
  return `${grouped(number.toFixed(digits)).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "")}${prefix || unit ? "\u00a0" : ""}${prefix}${unit}`;
}

export const amount = (value) => (value === null || value === undefined ? "–" : scaled(value, 1e5, ""));
export const bytes = (value) => (value === null || value === undefined ? "–" : scaled(Number(value), 1e3, "B"));
export const short = (value) => scaled(value, 1e3, "").replace("\u00a0", "");
export const percent = (share) => (share === null || share === undefined ? "–" : `${(share * 100).toFixed(share < 0.1 ? 1 : 0)}\u00a0%`);

export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  return value < 10 ? `${value.toFixed(1)}\u00a0ms` : value < 1000 ? `${Math.round(value)}\u00a0ms` : duration(value);
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return `${seconds.toFixed(1)}\u00a0s`;
  if (seconds < 120) return `${Math.round(seconds)}\u00a0s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes}\u00a0min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours}\u00a0h` : `${Math.floor(hours / 24)}\u00a0days`;
}

const two = (number) => String(number).padStart(2, "0");

export function clock(ms, withSeconds = true) {
  const time = new Date(ms);
  return `${two(time.getHours())}:${two(time.getMinutes())}${withSeconds ? `:${two(time.getSeconds())}` : ""}`;
}

export function moment(ms) {
  if (!ms) return "–";
  const time = new Date(ms);
  const today = new Date().toDateString() === time.toDateString();
  return today ? clock(ms) : `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${clock(ms)}`;
}

export const entry = (coordinator, offset) => `coordinator ${coordinator}, offset ${grouped(offset)}`;
export const iso = (ms) => (ms ? new Date(ms).toISOString() : "");
export const words = (rule) => String(rule).replace(/[_-]/g, " ");
