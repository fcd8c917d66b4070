// Making elements. Texts only ever become text nodes, so nothing that comes from the log can become markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(3)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

// A table from columns {title, cell(row), numeric, wide} and rows. `key` names rows, so that focus and open details survive.
export function table(caption, columns, rows, empty = "Nothing.") {
  if (!rows.length) return h("p", { class: "none" }, empty);
  const kind = (column) => [column.numeric && "number", column.wide && "wide"].filter(Boolean).join(" ") || null;
  return h("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption },
    h("table", {},
      h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: kind(column), title: column.help }, column.title)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((column) => h("td", { class: kind(column) }, column.cell(row))))))));
}

// A horizontal bar of parts {share, kind, title}; one without a label only repeats the number beside it.
export function bar(parts, label) {
  let x = 0;
  const rects = parts.map(({ share, kind, title }) => {
    const width = Math.max(0, Math.min(100 - x, share * 100));
    const rect = svg("rect", { x: x.toFixed(3), y: 0, width: width.toFixed(3), height: 8, class: kind }, svg("title", {}, title ?? ""));
    x += width;
    return rect;
  });
  return svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", ...(label ? { role: "img", "aria-label": label } : { "aria-hidden": true }) },
    svg("rect", { x: 0, y: 0, width: 100, height: 8, class: "rail" }), rects);
}

// Names and values; those without a value are left out.
export function facts(pairs, properties = {}) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "");
  return h("dl", { class: "facts", ...properties }, known.map(([name, value, more]) => h("div", {}, h("dt", {}, name), h("dd", more, value))));
}

// A command, and a button that copies it.
export function command(text, key) {
  const button = h("button", { type: "button", "data-key": key, class: "copy" }, "Copy");
  const code = h("code", {}, text);
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code); // no right to the clipboard: ready for Ctrl-C
    }
  });
  return h("div", { class: "command" }, code, button);
}

export function details(key, summary, ...children) {
  return h("details", { "data-key": key }, h("summary", {}, summary), ...children);
}

const opening = new Set();

// Open the details of a key, now or when they come: what the head of the page names may be ahead of its panel.
export function openDetails(key) {
  const there = document.querySelector(`details[data-key="${CSS.escape(key)}"]`);
  if (there) there.open = true;
  else opening.add(key);
}

// Put new content into a panel without taking focus, open details or scrolling away from who is using it.
export function replace(body, ...children) {
  const open = [...body.querySelectorAll("details[data-key]")].filter((one) => one.open).map((one) => one.dataset.key);
  const active = document.activeElement;
  const focused = body.contains(active) ? focusPath(body, active) : null;
  const scrolled = [...body.querySelectorAll(".scroll")].map((one) => [one.scrollTop, one.scrollLeft]);
  body.replaceChildren(...children.flat(3).filter(Boolean));
  for (const one of body.querySelectorAll("details[data-key]")) one.open = opening.delete(one.dataset.key) || open.includes(one.dataset.key);
  [...body.querySelectorAll(".scroll")].forEach((one, place) => {
    if (scrolled[place]) [one.scrollTop, one.scrollLeft] = scrolled[place];
  });
  if (focused) find(body, focused)?.focus({ preventScroll: true });
}

const FOCUSABLE = "a[href], button, input, summary, [tabindex]";

function focusPath(body, element) {
  const key = element.closest("[data-key]")?.dataset.key;
  return { key, tag: element.tagName, place: [...body.querySelectorAll(FOCUSABLE)].indexOf(element) };
}

function find(body, { key, tag, place }) {
  if (key) {
    const holder = [...body.querySelectorAll("[data-key]")].find((one) => one.dataset.key === key);
    return holder?.matches(FOCUSABLE) ? holder : holder?.querySelector(tag === "SUMMARY" ? "summary" : FOCUSABLE);
  }
  return body.querySelectorAll(FOCUSABLE)[place];
}
