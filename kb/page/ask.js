"use strict";
// Questions to the decision agent: each line of its answer is drawn when it comes. Whatever documents and models wrote
// becomes text of elements, never markup.
const FIELDS = ["clientId", "projectId", "groupId", "conversation", "query"];
const RESUME = 60, PAUSE = 500;
const MARK = /[[【](\d{1,4}(?:\s{0,2},\s{0,2}\d{1,4}){0,9})(?:†[^\]】\n]{0,30})?[\]】]/g;
// The beginning of a mark, whose end may come with the next piece.
const OPEN_MARK = /[[【][^\]】\n]{0,80}$/;
const VERDICTS = {
  Misattributed: "another passage has this quotation",
  Stitched: "its parts are there, and not as one text",
  Absent: "no passage has this quotation",
};
const ENDS = { answered: "Answered.", impossible: "This cannot be answered from the knowledge base.", failed: "The question failed.", cancelled: "Stopped." };

let current = null, asked = 0, opener = null;

function begin() {
  note(FIELDS);
  byId("problem").textContent = "";
  const number = ++asked, where = scope(), box = document.createElement("article");
  const turn = { where, query: value("query"), hangUp: new AbortController(), last: 0, heard: Date.now(), pause: PAUSE, lost: null, stream: "", over: false,
    tail: "", known: new Map(), quotes: new Map(), box };
  const section = make("section", "", box);
  make("h2", turn.query, section, { id: `question${number}` });
  box.setAttribute("aria-labelledby", `question${number}`);
  const steps = make("details", "", section, { open: "" });
  make("summary", "Steps", steps);
  turn.steps = turn.branch = make("ul", "", steps, { class: "tree", "aria-label": "Steps" });
  // Busy until it is whole: a screen reader reads it once, and not token by token.
  turn.answer = make("div", "", section, { class: "answer", role: "group", "aria-label": "Answer", "aria-live": "polite", "aria-busy": "true" });
  turn.after = make("div", "", section);
  byId("turns").prepend(box);
  working(turn);
  return turn;
}

// The focus stays where something can be done with it.
function working(turn) {
  const held = document.activeElement;
  byId("stop").disabled = !turn;
  byId("send").disabled = Boolean(turn);
  current = turn;
  if (held === byId("send") && turn) byId("stop").focus();
  if (held === byId("stop") && !turn) byId("query").focus();
}

const say = (text) => { byId("state").textContent = text; };

function settle(turn, outcome, reason) {
  if (turn.over) return;
  turn.over = true;
  write(turn, "", true);
  turn.answer.setAttribute("aria-busy", "false");
  turn.box.dataset.outcome = outcome;
  if (outcome !== "answered") make("p", [ENDS[outcome], reason].filter(Boolean).join(" "), turn.after, { class: "bad end" });
  say(ENDS[outcome] || outcome);
  if (current === turn) working(null);
}

// ---- the lines of the answer

// Objects of the lines that come until the connection ends; one that was cut is no line.
async function* lines(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const part = await reader.read().catch(() => ({ done: true }));
    if (part.done) return;
    const found = (rest + part.value).split("\n");
    rest = found.pop();
    for (const line of found) yield line.trim() ? JSON.parse(line) : null;
  }
}

async function follow(turn) {
  const body = { scope: turn.where, query: turn.query, resumeSeconds: RESUME };
  if (value("conversation")) body.conversation = value("conversation");
  const signal = turn.hangUp.signal;
  for (let response = await request("agentic_search", { body, signal }); ; response = await again(turn)) {
    for await (const event of lines(response)) {
      Object.assign(turn, { heard: Date.now(), pause: PAUSE, lost: null });
      // A blank line only says that the connection is there.
      if (event && event.id > turn.last) { turn.last = event.id; receive(turn, event); }
      if (turn.stopped) return end(turn);
    }
    if (turn.over) return;
    if (!turn.stream) throw new Error("The connection was lost before the question was taken. Ask again.");
  }
}

// The rest of the answer, after the connection was lost. A connection over which no line comes is none.
async function again(turn) {
  const after = () => `agentic_search/${turn.stream}?${new URLSearchParams({ ...turn.where, after: turn.last })}`;
  for (;;) {
    if (Date.now() - turn.heard > RESUME * 1000) throw turn.lost || new Error(`Nothing came for ${RESUME} seconds. Ask again.`);
    say("The connection was lost. Connecting again...");
    await new Promise((done) => setTimeout(done, turn.pause));
    turn.pause = Math.min(2 * turn.pause, 8000);
    try {
      const response = await request(after(), { signal: turn.hangUp.signal });
      say("Connected again.");
      return response;
    } catch (error) {
      const refused = error.status && error.status < 500 && error.status !== 429;
      if (turn.stopped || refused) throw error;
      turn.lost = error;
    }
  }
}

// With resumeSeconds a hang-up alone ends nothing, so that the stream is deleted as well.
function end(turn) {
  turn.hangUp.abort();
  return request(`agentic_search/${turn.stream}?${new URLSearchParams(turn.where)}`, { method: "DELETE", keepalive: true })
    .catch((error) => { byId("problem").textContent = error.message; });
}

function stop() {
  const turn = current;
  if (!turn) return;
  turn.stopped = true;
  settle(turn, "cancelled");
  // Before the first line the stream has no name: it is ended when that is there.
  if (turn.stream) end(turn);
}

async function ask() {
  if (current) return say("A question is being answered. Stop it first.");
  const turn = begin();
  try {
    await follow(turn);
  } catch (error) {
    if (turn.stopped) return;
    byId("problem").textContent = error.message;
    settle(turn, "failed", error.message);
  }
}

function receive(turn, event) {
  if (event.stream) turn.stream = event.stream;
  if (turn.over) return;
  const draw = { decision, status: step, result, token, error: failure, complete }[event.type];
  if (draw) draw(turn, event);
}

// ---- the tree

function decision(turn, event) {
  const entry = make("li", "", turn.steps, { "data-tool": event.tool });
  make("b", event.tool, entry);
  entry.append(event.reasoning ? `: ${event.reasoning}` : "");
  turn.branch = make("ul", "", entry);
}

function step(turn, event) {
  if (event.verdict) return leftOut(turn, event);
  make("li", event.message, turn.branch, { class: "soft" });
  say(event.message);
}

// A part of the answer with a quotation that its evidence does not have; rules can keep the part itself back.
function leftOut(turn, event) {
  make("li", event.message, turn.branch, { class: "bad" });
  if (!turn.left) {
    make("h3", "Left out of the answer", turn.after);
    turn.left = make("ul", "", turn.after, { class: "left" });
  }
  const entry = make("li", "", turn.left, { "data-verdict": event.verdict });
  make("b", `${event.verdict}: ${VERDICTS[event.verdict] || "a quotation is wrong"}. `, entry);
  entry.append(event.content || "The text is not shown, because a rule says what answers must or must not say.");
}

function failure(turn, event) {
  const entry = make("li", "", turn.branch, { class: "bad" });
  make("b", "Error: ", entry);
  entry.append([event.message, event.suggestion].filter(Boolean).join(" "));
  say(event.message);
}

function result(turn, event) {
  const objects = event.objects || [];
  const entry = make("li", event.message || `${objects.length} results`, turn.branch, { "data-payload": event.payloadType || "" });
  const list = make("ul", "", objects.length > 8 ? folded(entry, `${objects.length} results`) : entry);
  for (const one of objects) {
    if (one.ref) turn.known.set(one.ref, { ...one, ...turn.known.get(one.ref) });
    const text = named(one);
    link((one.ref ? `[${one.ref}] ` : "") + text, make("li", "", list), (click) => open(turn, one, click.currentTarget),
      { "aria-haspopup": "dialog", ...(one.ref ? { "data-ref": one.ref } : {}) });
  }
  say(event.message || "");
}

function folded(parent, title) {
  const box = make("details", "", parent);
  make("summary", title, box);
  return box;
}

const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const paged = (one) => one.pageNumber || one.page;

function named(one) {
  if (one.source && one.target) return `${one.source} ${one.type} ${one.target}`;
  const name = one.title || one.sourceUrn || (one.summary ? "Summary" : one.path || one.key || "Result");
  return cut([name, paged(one) && `page ${paged(one)}`].filter(Boolean).join(", ")
    + (one.interpretation ? `: ${one.interpretation}` : one.path && one.text ? `: ${one.text}` : ""), 200);
}

// ---- the answer

function token(turn, event) { write(turn, event.content || ""); }

function write(turn, piece, last = false) {
  let text = turn.tail + piece;
  const held = last ? -1 : text.search(OPEN_MARK);
  turn.tail = held < 0 ? "" : text.slice(held);
  if (held >= 0) text = text.slice(0, held);
  let done = 0;
  for (const found of text.matchAll(MARK)) {
    turn.answer.append(text.slice(done, found.index));
    for (const number of found[1].split(",")) cite(turn, Number(number));
    done = found.index + found[0].length;
  }
  turn.answer.append(text.slice(done));
}

function cite(turn, ref) {
  const known = turn.known.get(ref) || {};
  link(`[${ref}]`, turn.answer, (click) => open(turn, { ref }, click.currentTarget), { class: "cite", "data-ref": ref,
    "aria-haspopup": "dialog", "aria-label": `Evidence ${ref}: ${named(known)}` });
}

function complete(turn, event) {
  const cited = event.citations || [];
  if (cited.length) {
    make("h3", "Evidence", turn.after);
    const list = make("ul", "", turn.after, { class: "cited" });
    for (const one of cited) {
      // The page of a citation is that of what it quotes; a search has named the page of what was asked for.
      turn.known.set(one.ref, { ...one, ...turn.known.get(one.ref), ...(one.page && { page: one.page }) });
      turn.quotes.set(one.ref, one.quotes || []);
      const entry = make("li", "", list);
      link(`[${one.ref}] ${named(one)}`, entry, (click) => open(turn, { ref: one.ref }, click.currentTarget),
        { "data-ref": one.ref, "aria-haspopup": "dialog" });
      make("div", one.sourceUrn, entry, { class: "soft" });
    }
  }
  settle(turn, event.outcome || "failed", event.reason);
}

// ---- evidence

async function open(turn, object, from) {
  const known = turn.known.get(object.ref) || {};
  const one = { ...known, ...object, ...(known.pageId && !object.pageId && { page: known.page }) };
  const quotes = [...(turn.quotes.get(one.ref) || [])];
  if (!quotes.length && one.sentence) quotes.push(one.sentence);
  opener = from;
  const panel = byId("evidence");
  panel.hidden = false;
  panel.parentElement.classList.add("two");
  byId("evidenceTitle").textContent = (one.ref ? `[${one.ref}] ` : "") + (one.title || named(one));
  byId("where").textContent = [one.sourceUrn, one.kind, paged(one) && `page ${paged(one)}`, one.observedAt, one.retiredAt && `until ${one.retiredAt}`]
    .filter(Boolean).join(" · ");
  sources(turn, one);
  byId("quotes").replaceChildren();
  for (const quote of quotes) make("blockquote", quote, byId("quotes"));
  marked(byId("text"), one.text || one.summary || one.interpretation || "", quotes);
  byId("pictures").replaceChildren();
  byId("evidenceTitle").focus();
  await shown(async () => {
    let text = byId("text").textContent;
    if (!text && one.chunkId) {
      text = (await call(`chunks/${encodeURIComponent(one.chunkId)}?${new URLSearchParams(turn.where)}`)).chunk.text;
      if (opener === from) marked(byId("text"), text, quotes);
    }
    if (one.image || one.imageKey) await picture(turn, one, from);
    else if (one.chunkId) await page(turn, one, quotes[0] || text.slice(0, 300), from);
  });
}

async function shown(work) {
  try {
    byId("unread").textContent = "";
    await work();
  } catch (error) {
    byId("unread").textContent = error.message;
  }
}

// Where the passage stands: its chunk on the other page, and the address that its name ends with.
function sources(turn, one) {
  const box = byId("links");
  box.replaceChildren();
  if (one.chunkId) {
    const given = Object.entries({ ...turn.where, chunk: one.chunkId }).filter(([, said]) => said);
    make("a", "The whole passage and its nodes", box, { href: `./#${new URLSearchParams(given)}` });
  }
  const address = /https?:\/\/[^\s]+$/.exec(one.sourceUrn || "");
  if (address) {
    box.append(one.chunkId ? " · " : "");
    make("a", cut(address[0], 100), box, { href: address[0], rel: "noopener noreferrer", target: "_blank" });
  }
}

// The page that a passage stands on, where there is an image of it, with the places of its words.
async function page(turn, one, words, from) {
  if (!words) return;
  const asked = { scope: turn.where, query: words, sources: [one.sourceUrn], topK: one.page ? 20 : 1, ways: "Words", crop: false };
  const hits = (await call("search/pages", asked)).pages.filter((hit) => hit.sourceUrn === one.sourceUrn && hit.words >= 0.5);
  const hit = hits.find((found) => !one.page || found.pageNumber === one.page);
  if (hit) await picture(turn, hit, from);
}

// The token has to go with the request, so that the image is fetched and not linked.
async function picture(turn, one, from) {
  const key = one.imageKey || one.image.key || one.image;
  const response = await request(`content/${encodeURIComponent(key)}?${new URLSearchParams(turn.where)}`);
  const raw = await response.blob();
  const reader = new FileReader();
  await new Promise((done, failed) => { reader.onload = done; reader.onerror = failed; reader.readAsDataURL(raw.slice(0, raw.size, "image/png")); });
  if (opener !== from) return;
  const places = one.rectangles || [];
  const said = places.map((place) => place.text).filter(Boolean).join(", ");
  const figure = make("figure", "", null), frame = make("div", "", figure, { class: "page" });
  make("img", "", frame, { src: reader.result, alt: `Page ${paged(one) || ""} of ${one.title || one.sourceUrn}` });
  const over = svg("svg", frame, { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const place of places) {
    svg("rect", over, { x: place.left, y: place.top, width: place.right - place.left, height: place.bottom - place.top });
  }
  make("figcaption", places.length ? `Page ${paged(one)}, marked: ${said || `${places.length} places`}` : `Page ${paged(one)}`, figure, { class: "soft" });
  byId("pictures").replaceChildren(figure);
}

function close() {
  const panel = byId("evidence");
  if (panel.hidden) return;
  panel.hidden = true;
  panel.parentElement.classList.remove("two");
  (opener && opener.isConnected ? opener : byId("query")).focus();
  opener = null;
}

byId("ask").addEventListener("submit", (event) => { event.preventDefault(); ask(); });
byId("query").addEventListener("keydown", (event) => {
  // While an input method composes a word, Enter takes the word.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("ask").requestSubmit(byId("send").disabled ? undefined : byId("send"));
});
byId("stop").addEventListener("click", stop);
byId("close").addEventListener("click", close);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
window.addEventListener("pagehide", () => { if (current) stop(); });
// A question in the address is put into the field, and asked by the person: it takes a model's time.
const given = new URLSearchParams(location.hash.slice(1));
for (const id of FIELDS) if (given.has(id)) byId(id).value = given.get(id);
lead();
