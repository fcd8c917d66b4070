// Acknowledging findings: a dialog that asks who, why and, once for a page, for the token. Off unless the dashboard has a token.

import { h } from "/static/dom.js";
import { counted } from "/static/format.js";

const TOKEN = "diskless-token";
const WHO = "diskless-who";

let isOn = false;
let onChanged = () => {};

// What the server says of it, and what to do after a change. Returns whether that is news: panels drawn before have other buttons.
export function allowAcknowledging(allowed, changed) {
  const isNews = allowed !== isOn;
  isOn = allowed;
  onChanged = changed;
  return isNews;
}

const field = (name, label, more = {}) => h("label", {}, h("span", {}, label), h("input", { name, required: true, autocomplete: "off", ...more }));

// `what` names the findings: {ids} or {all: true}; `action` is "acknowledge" or "reopen".
export function acknowledgeButton(action, what, count, key) {
  if (!isOn) return null;
  const title = action === "acknowledge" ? "Acknowledge" : "Open again";
  return h("button", { type: "button", class: "copy", "data-key": key, onclick: () => ask(action, title, what, count) }, what.all ? `${title} all…` : `${title}…`);
}

function ask(action, title, what, count) {
  const failure = h("p", { class: "failure", role: "alert", hidden: true });
  const token = field("token", "Token", { type: "password", value: sessionStorage.getItem(TOKEN) ?? "" });
  const fields = [field("reason", "Why", { maxlength: 500 }), field("who", "Who you are", { maxlength: 500, value: localStorage.getItem(WHO) ?? "" }), token];
  const go = h("button", { type: "submit" }, title);
  const form = h("form", { class: "fields" }, fields, failure, h("div", { class: "actions" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), go));
  const dialog = h("dialog", { id: "acknowledge", "aria-labelledby": "acknowledge-title" }, h("h2", { id: "acknowledge-title" }, `${title}: ${counted(count, "finding")}`), form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const said = Object.fromEntries(new FormData(form));
    go.disabled = true;
    const wrong = await send(action, { ...what, who: said.who, reason: said.reason }, said.token);
    go.disabled = false;
    if (wrong) {
      failure.textContent = wrong;
      failure.hidden = false;
      return;
    }
    sessionStorage.setItem(TOKEN, said.token); // for this page only, until the tab is closed
    localStorage.setItem(WHO, said.who);
    dialog.close();
    onChanged();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// Returns what went wrong, or nothing.
async function send(action, body, token) {
  try {
    const answer = await fetch(`/api/findings/${action}`, {
      method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` },
    });
    return answer.ok ? "" : (await answer.json()).error;
  } catch (error) {
    return `The dashboard does not answer: ${error.message}`;
  }
}
