"use strict";
// What both pages use: fields, elements, and calls of the API with the token of the form.
const byId = (id) => document.getElementById(id);
const value = (id) => byId(id).value.trim();
const scope = () => ({ clientId: value("clientId"), projectId: value("projectId"), groupId: value("groupId") });

function make(tag, text, parent, more = {}) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  for (const [name, said] of Object.entries(more)) made.setAttribute(name, said);
  if (parent) parent.append(made);
  return made;
}

function link(text, parent, act, more = {}) {
  const made = make("button", text, parent, { type: "button", class: "plain", ...more });
  made.addEventListener("click", act);
  return made;
}

function svg(tag, parent, more = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, said] of Object.entries(more)) made.setAttribute(name, said);
  if (text) made.textContent = text;
  parent.append(made);
  return made;
}

// A text in an element, with what it has of the sentences marked.
function marked(box, text, sentences) {
  const spans = [];
  for (const sentence of new Set(sentences)) {
    const at = text.indexOf(sentence);
    if (at >= 0) spans.push([at, at + sentence.length]);
  }
  spans.sort((left, right) => left[0] - right[0]);
  box.replaceChildren();
  let done = 0;
  for (const [start, end] of spans) {
    if (start < done) continue;
    box.append(text.slice(done, start));
    make("mark", text.slice(start, end), box);
    done = end;
  }
  box.append(text.slice(done));
}

// A person waits for the answer. An error has its remedy in the message, and the status that was answered.
async function request(path, { body, ...more } = {}) {
  const headers = { "X-Ollama-Priority": "1" };
  if (value("token")) headers.Authorization = `Bearer ${value("token")}`;
  const options = { headers, ...more };
  if (body) { options.method = "POST"; options.body = JSON.stringify(body); headers["Content-Type"] = "application/json"; }
  const response = await fetch(`../api/v1/${path}`, options);
  if (response.ok) return response;
  const problem = (await response.json().catch(() => ({}))).error || { message: `HTTP ${response.status}` };
  throw Object.assign(new Error([problem.message, problem.remedy].filter(Boolean).join(" - ")), { status: response.status });
}

const call = async (path, body) => (await request(path, { body })).json();

// The values of some fields into the address, and into the links to the other page.
function note(ids) {
  const given = new URLSearchParams();
  for (const id of ids) if (value(id)) given.set(id, value(id));
  history.replaceState(null, "", "#" + given.toString());
  lead();
}

function lead() {
  for (const to of document.querySelectorAll("nav a")) to.hash = location.hash;
}
