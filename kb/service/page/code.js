"use strict";
// The neighbourhood of a declaration: drawn in columns by its distance and in boxes by its file, and as a list with the
// same content. In the drawing the arrow keys move, Enter goes on from there; it is one stop of the tab key.
const ROW = 24, HEAD = 20, WIDE = 250, GAP = 90, PAD = 10;

function neighbourhood(symbol) {
  byId("symbol").value = symbol;
  remember();
  return show(async () => {
    const request = { scope: scope(), symbol, steps: Number(value("steps")), limit: 200, repository: value("repository") };
    if (value("branch")) request.branch = value("branch");
    const found = await call("code/neighbourhood", request);
    return () => {
      const known = found.coverage, start = found.symbol;
      byId("code").hidden = false;
      byId("code").dataset.symbol = start.key;
      byId("codeSymbol").textContent = `${start.kind} ${start.qualifiedName}`;
      byId("codePlace").textContent = [`${start.path}:${start.line}`, start.signature].filter(Boolean).join(" · ");
      byId("codeReach").textContent = `${found.neighbours.length} declarations, ${found.calls.length} connections; `
        + (found.leftOut ? `${found.leftOut} declarations more are left out. ` : "none is left out. ")
        + `${known.repository} ${known.branch} at ${known.commit.slice(0, 12)}, ${known.unresolved} calls have an unknown callee.`
        + (known.callsUnknown.length ? ` Calls of ${known.callsUnknown.join(", ")} are not known.` : "")
        + (known.current ? "" : " A newer commit is being read.");
      drawCode(found);
      listCode(found);
      byId("codeSymbol").focus();
    };
  });
}

// Names one declaration: a name that several files declare has its path before it.
const exactly = (place) => (place.kind === "file" ? place.path : place.qualifiedName);
const column = (one) => (one.side === "caller" ? -one.steps : one.steps);

// Boxes of files, one below the other, in each column; the middle of each column is at 0.
function boxes(neighbours) {
  const columns = new Map();
  for (const one of neighbours) {
    const files = columns.get(column(one)) || columns.set(column(one), new Map()).get(column(one));
    files.set(one.place.path, [...(files.get(one.place.path) || []), one]);
  }
  const made = [], at = new Map();
  const ordered = [...columns.keys()].sort((left, right) => left - right);
  ordered.forEach((key, index) => {
    const files = [...columns.get(key)];
    const height = (rows) => HEAD + rows.length * ROW + 6;
    let y = -files.reduce((sum, [, rows]) => sum + height(rows) + PAD, -PAD) / 2;
    for (const [path, rows] of files) {
      made.push({ path, x: index * (WIDE + GAP), y, height: height(rows) });
      rows.forEach((one, row) => at.set(one.place.key, { x: index * (WIDE + GAP), y: y + HEAD + row * ROW + ROW / 2, index, one }));
      y += height(rows) + PAD;
    }
  });
  return { made, at, columns: ordered.length };
}

const short = (text, most) => (text.length > most ? "…" + text.slice(1 - most) : text);

function drawCode(found) {
  const picture = byId("codeGraph"), { made, at, columns } = boxes(found.neighbours);
  picture.replaceChildren();
  const top = Math.min(...made.map((box) => box.y)) - PAD, bottom = Math.max(...made.map((box) => box.y + box.height)) + PAD;
  const width = columns * (WIDE + GAP) - GAP + 2 * PAD;
  for (const [name, said] of [["viewBox", `${-PAD} ${top} ${width} ${bottom - top}`], ["width", width], ["height", bottom - top]]) {
    picture.setAttribute(name, said);
  }
  for (const box of made) {
    const group = svg("g", picture, { class: "file", "data-file": box.path });
    svg("rect", group, { x: box.x, y: box.y, width: WIDE, height: box.height, rx: 6 });
    svg("text", group, { x: box.x + 8, y: box.y + 14 }, short(box.path, 40));
    svg("title", group, {}, box.path);
  }
  for (const one of found.calls) {
    const from = at.get(one.caller), to = at.get(one.callee);
    const group = svg("g", picture, { class: "call", "data-call": `${one.caller}|${one.callee}` });
    const right = to.index > from.index, x1 = from.x + WIDE, x2 = right ? to.x : to.x + WIDE, bend = right ? GAP / 2 : GAP;
    svg("path", group, { d: `M${x1} ${from.y} C${x1 + bend} ${from.y} ${x2 + (right ? -bend : bend)} ${to.y} ${x2} ${to.y}` });
    svg("circle", group, { cx: x2, cy: to.y, r: 3 });
    svg("title", group, {}, `${from.one.place.qualifiedName} calls ${to.one.place.qualifiedName}, ${lines(one)}`);
  }
  const nodes = [...at.values()];
  nodes.forEach((node) => {
    const place = node.one.place, start = node.one.steps === 0;
    const group = svg("g", picture, { class: start ? "node centre" : "node", "data-key": place.key, role: "button",
      tabindex: start ? "0" : "-1", "aria-label": `${place.kind} ${place.qualifiedName}, ${where(node.one)}, ${place.path} line ${place.line}` });
    svg("rect", group, { x: node.x + 4, y: node.y - ROW / 2 + 1, width: WIDE - 8, height: ROW - 2, rx: 4 });
    svg("text", group, { x: node.x + 12, y: node.y + 4 }, short(place.qualifiedName, 36));
    svg("title", group, {}, `${place.qualifiedName} (${place.path}:${place.line})`);
    node.group = group;
    group.addEventListener("click", () => neighbourhood(exactly(place)));
    group.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") neighbourhood(exactly(place));
      else if (!event.key.startsWith("Arrow")) return;
      else go(nodes, node, event.key);
      event.preventDefault();
    });
  });
}

// The nearest node in the direction of an arrow key; the drawing stays one stop of the tab key.
function go(nodes, from, key) {
  const side = key === "ArrowLeft" ? -1 : key === "ArrowRight" ? 1 : 0, down = key === "ArrowDown" ? 1 : -1;
  const there = nodes.filter((one) => (side ? one.index === from.index + side : one.index === from.index && (one.y - from.y) * down > 0));
  there.sort((left, right) => Math.abs(left.y - from.y) - Math.abs(right.y - from.y));
  if (!there.length) return;
  from.group.setAttribute("tabindex", "-1");
  there[0].group.setAttribute("tabindex", "0");
  there[0].group.focus();
}

const where = (one) => (one.steps === 0 ? "the start" : `${one.side}, ${one.steps} ${one.steps === 1 ? "step" : "steps"} away`);
const lines = (one) => (one.lines.length === 1 ? "line " : "lines ") + one.lines.join(", ");

function listCode(found) {
  const names = new Map(found.neighbours.map((one) => [one.place.key, one.place.qualifiedName]));
  const calls = new Map();
  for (const one of found.calls) calls.set(one.caller, [...(calls.get(one.caller) || []), one]);
  const box = byId("codeList");
  box.replaceChildren();
  for (const [title, side] of [["The declaration itself", "symbol"], ["Callers", "caller"], ["Callees", "callee"]]) {
    const some = found.neighbours.filter((one) => one.side === side);
    make("h3", `${title} (${some.length})`, box);
    const list = make("ul", "", box, { "data-side": side });
    for (const one of some) {
      const entry = make("li", "", list, { "data-key": one.place.key });
      link(one.place.qualifiedName, entry, () => neighbourhood(exactly(one.place)));
      make("div", `${one.place.kind} · ${one.place.path}:${one.place.line} · ${where(one)}`, entry, { class: "soft" });
      const said = (calls.get(one.place.key) || []).map((call) => `${names.get(call.callee)} (${lines(call)})`);
      if (said.length) make("div", `calls ${said.join("; ")}`, entry, { class: "soft" });
    }
  }
}

byId("ofCode").addEventListener("submit", (event) => { event.preventDefault(); neighbourhood(value("symbol")); });
for (const id of CODE) if (given.has(id)) byId(id).value = given.get(id);
if (value("symbol") && !value("query")) neighbourhood(value("symbol"));
