"use strict";
// Images of pages with what is marked on them: places of words, or the patches that look like the question, and the piece
// of the image with most of it. What stands on the image is also said in words.
const SIDES = ["left", "top", "right", "bottom"];
const MOST_SAID = 300;
const cut = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const paged = (one) => one.pageNumber || one.page;

function folded(parent, title) {
  const box = make("details", "", parent);
  make("summary", title, box);
  return box;
}

// The image of a page, or of a place on it, as an address. The token has to go with the request, so that it is fetched
// and not linked.
async function image(where, one, place) {
  const cutAt = place ? Object.fromEntries(SIDES.map((side) => [side, place[side].toFixed(4)])) : {};
  const asked = new URLSearchParams({ ...where, ...cutAt });
  const raw = await (await request(`search/pages/${encodeURIComponent(one.pageId)}/image?${asked}`)).blob();
  const reader = new FileReader();
  await new Promise((done, failed) => { reader.onload = done; reader.onerror = failed; reader.readAsDataURL(raw.slice(0, raw.size, "image/png")); });
  return reader.result;
}

const pageName = (one) => `Page ${paged(one) || ""} of ${one.title || one.sourceUrn}`;
const percent = (share) => Math.round(100 * share);
const whereabouts = (place) => `${percent(place.left)} to ${percent(place.right)} % from the left, ${percent(place.top)} to ${percent(place.bottom)} % from the top`;

// What is marked on a page, in words.
function markedThere(one) {
  const places = one.rectangles || [];
  const said = places.map((place) => place.text).filter(Boolean).join(", ");
  if (places.length) return cut(said, MOST_SAID) || `${places.length} places`;
  return one.place || one.patches ? "what looks like the question" : "";
}

// The same, and where on the page it is.
const placed = (one) => [markedThere(one), one.place && whereabouts(one.place)].filter(Boolean).join(", ");

// The whole page with what is marked on it, as a figure.
async function picture(where, one) {
  const src = await image(where, one);
  const figure = make("figure", "", null), frame = make("div", "", figure, { class: "page" });
  const name = pageName(one), there = placed(one);
  make("img", "", frame, { src, alt: there ? `${name}, marked: ${there}` : name });
  const over = svg("svg", frame, { viewBox: "0 0 1 1", preserveAspectRatio: "none", "aria-hidden": "true" });
  const places = one.rectangles || [];
  for (const place of places) svg("rect", over, sized(place));
  if (!places.length) {
    for (const patch of patches(one.patches)) {
      const drawn = svg("rect", over, { class: "patch", opacity: patch.share, ...sized(patch) });
      svg("title", drawn, {}, patch.said.join(", "));
    }
    if (one.place) svg("rect", over, { class: "place", ...sized(one.place) });
  }
  make("figcaption", `Page ${paged(one) || ""}${there ? `, marked: ${places.length ? markedThere(one) : there}` : ""}`, figure, { class: "soft" });
  if (!places.length && one.patches) patchList(one.patches, figure);
  return figure;
}

const sized = (place) => ({ x: place.left, y: place.top, width: place.right - place.left, height: place.bottom - place.top });

// The patches of a page that are like a token of the question, each once: its place, what it is like, and its score as a
// share of the best one's.
function patches(map) {
  const found = new Map();
  for (const one of map ? map.tokens : []) {
    for (const { row, column, score } of one.patches) {
      if (score <= 0) continue;
      const key = `${row} ${column}`, known = found.get(key) || { row, column, score, said: [] };
      known.said.push(`${tokenName(one)}: ${score.toFixed(2)}`);
      found.set(key, Object.assign(known, { score: Math.max(score, known.score) }));
    }
  }
  const best = Math.max(...[...found.values()].map((one) => one.score));
  return [...found.values()].map((one) => ({ ...one, share: (one.score / best).toFixed(3), left: one.column / map.columns,
    right: (one.column + 1) / map.columns, top: one.row / map.rows, bottom: (one.row + 1) / map.rows }));
}

const tokenName = (one) => one.token || `Token ${one.index + 1}`;

// The patch map for who does not see it.
function patchList(map, parent) {
  const list = make("ul", "", folded(parent, `Patch map, ${map.rows} rows and ${map.columns} columns`), { class: "patches" });
  for (const one of map.tokens) {
    const [best] = one.patches;
    if (best && best.score > 0) make("li", `${tokenName(one)}: ${best.score.toFixed(2)} at row ${best.row + 1}, column ${best.column + 1}`, list);
  }
}

// The pieces of pages that the answer rests on, one after another: the service cuts few at once.
async function crops(where, cited) {
  for (const [one, entry] of cited) {
    try {
      const src = await image(where, one, one.place), alt = `${pageName(one)}, cut out: ${placed(one)}`;
      const drawn = make("img", "", entry, { class: "crop", src, alt });
      drawn.addEventListener("load", () => cutHere(one, drawn));
    } catch (error) {
      make("div", `The place on the page cannot be shown: ${error.message}`, entry, { class: "soft" });
    }
  }
}

// An image that was not drawn of a PDF comes whole. Its page is measured in pixels, as it is itself.
function cutHere(one, drawn) {
  const { naturalWidth: width, naturalHeight: height } = drawn, { left, top, right, bottom } = one.place;
  if (width !== one.width || height !== one.height) return;
  const box = [left * width, top * height, (right - left) * width, (bottom - top) * height];
  const piece = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, said] of Object.entries({ viewBox: box.join(" "), class: "crop", role: "img", "aria-label": drawn.alt })) piece.setAttribute(name, said);
  svg("image", piece, { href: drawn.src, width, height });
  drawn.replaceWith(piece);
}

