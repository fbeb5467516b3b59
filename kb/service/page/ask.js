"use strict";
// Questions to the decision agent: each line of its answer is drawn when it comes. Whatever documents and models wrote
// becomes text of elements, never markup.
const FIELDS = ["clientId", "projectId", "groupId", "conversation", "query"];
const RESUME = 60, PAUSE = 500;
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
    rest: new Text(), known: new Map(), quotes: new Map(), box };
  const section = make("section", "", box);
  make("h2", turn.query, section, { id: `question${number}` });
  box.setAttribute("aria-labelledby", `question${number}`);
  const steps = make("details", "", section, { open: "" });
  make("summary", "Steps", steps);
  turn.steps = turn.branch = make("ul", "", steps, { class: "tree", "aria-label": "Steps" });
  // Busy until it is whole: a screen reader reads it once, and not token by token.
  turn.answer = make("div", "", section, { class: "answer", role: "group", "aria-label": "Answer", "aria-live": "polite", "aria-busy": "true" });
  turn.answer.append(turn.rest);
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

function settle(turn, outcome, reason, model) {
  if (turn.over) return;
  turn.over = true;
  write(turn, "", true);
  turn.answer.setAttribute("aria-busy", "false");
  turn.box.dataset.outcome = outcome;
  if (outcome !== "answered") make("p", [ENDS[outcome], reason].filter(Boolean).join(" "), turn.after, { class: "bad end" });
  if (model) make("p", `The model says: ${model}`, turn.after, { class: "soft model" });
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
  if (event.verdict === "Thoughts") retract(turn);
  else if (event.verdict) return leftOut(turn, event);
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

// All that was written of the answer were the model's thoughts.
function retract(turn) {
  turn.rest.data = "";
  turn.answer.replaceChildren(turn.rest);
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

function named(one) {
  if (one.source && one.target) return `${one.source} ${one.type} ${one.target}`;
  const name = one.title || one.sourceUrn || (one.summary ? "Summary" : one.path || one.key || "Result");
  return cut([name, paged(one) && `page ${paged(one)}`].filter(Boolean).join(", ")
    + (one.interpretation ? `: ${one.interpretation}` : one.path && one.text ? `: ${one.text}` : ""), 200);
}

// ---- the answer

function token(turn, event) { write(turn, event.content || ""); }

// The text at once, and its marks as buttons when a part of it has its end: before that it is open what is quoted.
function write(turn, piece, last = false) {
  turn.rest.data += piece;
  for (let found = part(turn.rest.data, last); found; found = part(turn.rest.data, last)) {
    const drawn = new DocumentFragment();
    for (const [text, quoted] of found.pieces) {
      if (quoted) drawn.append(text);
      else cite(turn, text, drawn);
    }
    turn.rest.before(drawn);
    turn.rest.data = turn.rest.data.slice(found.length);
  }
}

// A text with a button for each number of its marks that is one of the evidence.
function cite(turn, text, parent) {
  let done = 0;
  for (const found of text.matchAll(MARK)) {
    const numbers = [...found[1].matchAll(NUMBER)].map((one) => Number(one[1]));
    if (!numbers.some((ref) => turn.known.has(ref))) continue;
    parent.append(text.slice(done, found.index));
    for (const ref of numbers) {
      if (!turn.known.has(ref)) { parent.append(`[${ref}]`); continue; }
      link(`[${ref}]`, parent, (click) => open(turn, { ref }, click.currentTarget), { class: "cite", "data-ref": ref,
        "aria-haspopup": "dialog", "aria-label": `Evidence ${ref}: ${named(turn.known.get(ref))}` });
    }
    done = found.index + found[0].length;
  }
  parent.append(text.slice(done));
}

function complete(turn, event) {
  const cited = event.citations || [], seen = [];
  if (cited.length) {
    make("h3", "Evidence", turn.after);
    const list = make("ul", "", turn.after, { class: "cited" });
    for (const one of cited) {
      // The page of a citation is that of what it quotes, or none; a search has named the page of what was asked for.
      turn.known.set(one.ref, { ...one, ...turn.known.get(one.ref), page: one.page });
      turn.quotes.set(one.ref, one.quotes || []);
      const entry = make("li", "", list);
      link(`[${one.ref}] ${named(one)}`, entry, (click) => open(turn, { ref: one.ref }, click.currentTarget),
        { "data-ref": one.ref, "aria-haspopup": "dialog" });
      make("div", one.sourceUrn, entry, { class: "soft" });
      const known = turn.known.get(one.ref);
      if (known.pageId && known.place) seen.push([known, entry]);
    }
  }
  crops(turn.where, seen);
  settle(turn, event.outcome || "failed", event.reason, event.reasoning);
}

// ---- evidence

async function open(turn, object, from) {
  const known = turn.known.get(object.ref) || {};
  const one = { ...known, ...object, ...(turn.quotes.has(object.ref) && !object.pageId && { page: known.page }) };
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
    const hit = one.chunkId && !one.place ? (await page(turn, one, quotes[0] || text.slice(0, 300))) || one : one;
    if (!hit.pageId) return;
    const drawn = await picture(turn.where, hit);
    if (opener === from) byId("pictures").replaceChildren(drawn);
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

// The page that a passage stands on, where there is an image of it, with the places of its words. What stands on no page
// of a passage whose pages are known is not looked for on others.
async function page(turn, one, words) {
  if (!words || (!one.page && one.pageStarts)) return null;
  const asked = { scope: turn.where, query: words, sources: [one.sourceUrn], topK: one.page ? 20 : 1, ways: "Words", crop: false };
  const hits = (await call("search/pages", asked)).pages.filter((hit) => hit.sourceUrn === one.sourceUrn && hit.words >= 0.5);
  return hits.find((found) => !one.page || found.pageNumber === one.page);
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
