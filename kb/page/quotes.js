"use strict";
// What of an answer is quoted, as crds/quotations.py cuts it: a test compares the two. A mark inside a quotation belongs
// to the passage that is quoted; only the others name evidence of the answer.
const MARK = /[[【](\d{1,4}(?:\s{0,2},\s{0,2}\d{1,4}){0,9})(?:†[^\]】\n]{0,30})?[\]】]/g;
const MOST_MARK = 120, MOST_PART = 4000, LEAST_WORDS = 4;
// Sign that opens a quotation -> signs that close it.
const DOUBLE = { '"': '"', "“": "”", "”": "”", "„": '“”"', "«": "»", "»": "«»", "‹": "›", "›": "‹›", "‘": "’", "‚": "‘’", "「": "」", "『": "』", "《": "》" };
const SINGLE = { "'": "'" };
const STOPS = ".!?。！？", WIDE_STOPS = "。！？", OPENS_ALWAYS = "“„«‹‚「『《", APOSTROPHES = "'’‘", BLANKS = " \t\n\u00a0\u202f\u3000";
const DIGIT = /[\p{Nd}²³¹⁰⁴-⁹₀-₉]/u;
// Letters of scripts that put no blanks between words; two of them count as a word.
const UNSPACED = /[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u9fff\uf900-\ufaff\uff66-\uff9f]/;
const LAST_WORD = /(\p{Nd}[ \u00a0]?)?([\p{L}\p{Nl}\p{No}]+)$/u;
const ABBREVIATIONS = " str nr no pp fig vgl bzw ca cca čl odst např tzv resp tj mr mrs dr prof st vs cf abb kap art sec vol ed al"
  + " approx max min incl inkl evtl ggf usw etc sog tab obr kpt viz ";

// An accent is one that is put in order: it comes before the one that stands behind all others.
const combining = (sign) => sign === "\u0345" || !`\u0345${sign}`.normalize("NFD").startsWith("\u0345");
// Whether a sign is part of a word, in a script that separates words.
const letter = (sign, unspaced = false) => (/[\p{L}\p{N}]/u.test(sign) || combining(sign)) && (unspaced || !UNSPACED.test(sign));

// Fewer words are a name.
function long(text) {
  const unspaced = [...text].filter((sign) => UNSPACED.test(sign)).length;
  const words = text.replace(new RegExp(UNSPACED, "g"), " ").match(/[\p{L}\p{N}]+/gu) || [];
  return words.length + Math.floor(unspaced / 2) >= LEAST_WORDS;
}

// The quotations that begin with some signs. At most one is open.
class Track {
  constructor(pairs) {
    // `again`: the sign that may close the latest one once more, because it may have been an apostrophe or inches.
    Object.assign(this, { pairs, open: null, found: [], again: "" });
  }

  closes(at, sign, before, after) {
    if (!this.open) {
      if (sign !== this.again || BLANKS.includes(before) || letter(after)) return false;
      this.found.push([this.found.pop()[0], at + 1, true]);
      return true;
    }
    const [start, opening] = this.open;
    if (!this.pairs[opening].includes(sign) || this.begins(sign, before, after)) return false;
    if (APOSTROPHES.includes(sign) && letter(after)) return false;
    this.found.push([start, at + 1, true]);
    this.open = null;
    const doubtful = (APOSTROPHES.includes(sign) && "sSxXzZ".includes(before)) || (sign === '"' && DIGIT.test(before));
    this.again = doubtful ? sign : "";
    return true;
  }

  opens(at, sign, before, after) {
    if (!this.pairs[sign] || (this.open && sign !== this.open[1])) return;
    const always = OPENS_ALWAYS.includes(sign) && (!BLANKS.includes(after) || "«‹".includes(sign));
    if (!always && !this.begins(sign, before, after)) return;
    if (this.open) this.found.push([this.open[0], at, false]);
    this.open = [at, sign];
    this.again = "";
  }

  // Whether the sign stands as one does that opens a quotation.
  begins(sign, before, after) {
    if (BLANKS.includes(after) || (APOSTROPHES.includes(sign) && DIGIT.test(after))) return false;
    if (this.open && sign !== this.open[1]) return false;
    const spaced = BLANKS.includes(before) || "([{".includes(before);
    if (this.open || !spaced) return (spaced || !this.open) && !letter(before) && letter(after, true);
    return true;
  }

  // [start, end, whole] of those of a part that ends here.
  taken(wholeOnly) {
    const found = this.open ? [...this.found, [this.open[0], Infinity, false]] : this.found;
    return found.filter(([, , whole]) => whole || !wholeOnly);
  }
}

// The first part of a text: its pieces, [text, whether it is quoted], and its length. None while more of the text decides
// where it ends; `last`: no more comes.
function part(text, last) {
  const seen = text.slice(0, 2 * (MOST_PART + MOST_MARK)), whole = last && seen.length === text.length;
  const signs = [...seen], double = new Track(DOUBLE), single = new Track(SINGLE);
  // The sign that ends a sentence, if only blanks and marks came after it; " " behind an abbreviation.
  let at = 0, stop = "";
  while (at + (whole ? 0 : 1) < signs.length) {
    if (at >= MOST_PART) return pieces(signs, at, double, single);
    const sign = signs[at], near = [at, sign, at ? signs[at - 1] : " ", at + 1 < signs.length ? signs[at + 1] : " "];
    if (sign === "\n") {
      at += 1;
      if (!double.open || near[3] === "\n") return pieces(signs, at, double, single);
      continue;
    }
    // Both look at each sign.
    const closed = [double.closes(...near), single.closes(...near)].some(Boolean);
    if (closed || BLANKS.includes(sign)) {
      // What was quoted has ended, and the sentence goes on without a blank.
      if (closed && WIDE_STOPS.includes(stop)) stop = "";
      at += 1;
      continue;
    }
    if (stop && "[【".includes(sign)) {
      const rest = signs.slice(at, at + MOST_MARK), found = new RegExp(`^${MARK.source}`).exec(rest.join(""));
      if (!found && !whole && rest.length < MOST_MARK && !rest.some((one) => "]】\n".includes(one))) return null;
      if (found) {
        at += [...found[0]].length;
        continue;
      }
    }
    const open = STOPS.includes(sign) || double.open || single.open;
    if (stop && !open && (WIDE_STOPS.includes(stop) || (stop !== " " && BLANKS.includes(near[2]) && !/\p{Lowercase}/u.test(sign)))) {
      return pieces(signs, at, double, single);
    }
    stop = STOPS.includes(sign) ? stopped(signs, at) : "";
    double.opens(...near);
    single.opens(...near);
    at += 1;
  }
  return whole && signs.length ? pieces(signs, signs.length, double, single) : null;
}

// One letter is an abbreviation, and behind a number it is a unit.
function stopped(signs, at) {
  const word = signs[at] === "." && LAST_WORD.exec(signs.slice(Math.max(0, at - 10), at).join(""));
  if (!word) return signs[at];
  const short = ABBREVIATIONS.includes(` ${word[2].toLowerCase()} `) || ([...word[2]].length === 1 && word[1] === undefined);
  return short ? " " : signs[at];
}

function pieces(signs, end, double, single) {
  const taken = [...double.taken(false), ...single.taken(true)].sort((left, right) => left[0] - right[0] || left[1] - right[1]);
  const made = [], text = (from, to) => signs.slice(from, to).join("");
  let done = 0;
  for (const [start, closes, whole] of taken) {
    const closed = Math.min(closes, end);
    // What stands in a quotation is part of that.
    if (start < done || !long(text(start + 1, closed - (whole ? 1 : 0)))) continue;
    made.push([text(done, start), false], [text(start, closed), true]);
    done = closed;
  }
  made.push([text(done, end), false]);
  return { pieces: made.filter(([one]) => one), length: text(0, end).length };
}
