"use strict";
// What of an answer is quoted, as text/quotations.py and text/quotation_marks.py cut it: a test compares both. A mark inside
// a quotation belongs to the passage that is quoted; only the others name evidence of the answer.
const NUMBER = /(\d{1,4})(?:(?:\s{0,2}[,;:(|])?\s{0,2}(?:[Pp]ages?|[Pp]{1,2}|[Ss]eiten?|[Ss]tran[ay]|[Ss]tr|[Ss])\.?\s{0,2}\d{1,4}(?:\s?[-–]\s?\d{1,4})?\)?)?/g;
const ONE = NUMBER.source.replace("(", "(?:");
const MARK = new RegExp(`[[【](${ONE}(?:\\s{0,2}[,;]\\s{0,2}${ONE}){0,9})(?:†[^\\]】\\n]{0,30})?[\\]】]`, "g");
const MOST_MARK = 400, MOST_PART = 4000, LEAST_WORDS = 4;
// Sign that opens a quotation -> signs that close it.
const DOUBLE = { '"': '"', "＂": "＂", "″": "″", "〝": "〞〟", "“": "”", "”": "”", "‟": "”", "„": '“”‟"', "❝": "❞", "❮": "❯", "«": "»", "»": "«»", "‹": "›", "›": "‹›", "‘": "’", "‚": "‘’", "「": "」", "『": "』", "《": "》" };
const SINGLE = { "'": "'" };
const STOPS = ".!?。！？", WIDE_STOPS = "。！？", OPENS_ALWAYS = "“‟„❝❮«‹‚「『《", APOSTROPHES = "'’‘", INCHES = '"＂″', BLANKS = " \t\n\u00a0\u202f\u3000";
// Behind LEADS a sign that has a blank behind it may begin a quotation. AHEAD: signs that may decide what one is.
const LEADS = "([{:=*_>|/–—", AHEAD = 6;
const YEAR = /^[0-9]{2}(?![0-9]|[.,:][0-9])/, CUT_OFF = /^ (?:s|t|d|m|re|ve|ll) /;
const CITED = /^[ \t\n\u00a0\u202f\u3000.,;:!?()]{0,3}[[【][0-9]/;
const DIGIT = /[\p{Nd}²³¹⁰⁴-⁹₀-₉]/u;
// Letters of scripts that put no blanks between words; two of them count as a word.
const UNSPACED = /[\u0e01-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u9fff\uf900-\ufaff\uff66-\uff9f]/;
const LAST_WORD = /(\p{Nd}[ \u00a0]?)?([\p{L}\p{Nl}\p{No}]+)$/u;
const ABBREVIATIONS = " str nr no pp fig vgl bzw ca cca čl odst např tzv resp tj mr mrs dr prof st vs cf abb kap art sec vol ed al"
  + " approx max min incl inkl evtl ggf usw etc sog tab obr kpt viz ";

const SIGNS = new Set(["\n", ...STOPS, ...Object.keys(DOUBLE), ...Object.keys(SINGLE), ...Object.values(DOUBLE).join("")]);

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

// A sign with what is around it: two before it, AHEAD behind it.
class Near {
  constructor(signs, at) {
    const ahead = signs.slice(at + 1, at + 1 + AHEAD);
    Object.assign(this, { at, sign: signs[at], behind: [signs[at - 2] || " ", signs[at - 1] || " "],
      after: ahead.length ? ahead[0] : " ", next: ahead[1] || "", ahead: ahead.length ? ahead.join("") : " " });
    this.before = this.behind[1];
    this.apostrophe = APOSTROPHES.includes(this.sign);
    // As in rock 'n' roll; and as in '68 and '90s, which may also be a number that is quoted.
    this.elided = this.apostrophe && this.after === "n" && ["'", "’"].includes(this.next);
    this.year = this.apostrophe && YEAR.test(this.ahead);
    this.cited = CITED.test(this.ahead);
    // A word behind it: the sentence goes on.
    this.amid = BLANKS.includes(this.after) && this.after !== "\n" && letter(this.next || " ", true);
    // An apostrophe behind a word, or inches, feet, minutes, seconds.
    const last = BLANKS.includes(this.before) ? this.behind[0] : this.before;
    this.doubtful = this.apostrophe
      ? "sSxXzZ".includes(last) || DIGIT.test(last) || (last === "n" && APOSTROPHES.includes(this.behind[0]))
      : INCHES.includes(this.sign) && DIGIT.test(last);
  }
}

// The quotations that begin with some signs. At most one is open. `sure`, `unsure`: it takes those that begin as no
// apostrophe and no inches do, and those that may be that.
class Track {
  constructor(pairs, sure, unsure) {
    // `again`: the sign that may close the latest one once more, because it may have been an apostrophe or inches.
    Object.assign(this, { pairs, sure, unsure, open: null, found: [], again: "", cited: false });
  }

  isOpen() { return this.open !== null && !this.open[2]; }

  // Whether it may turn out that a quotation which began before this place has not ended yet.
  goesOn(at) {
    if (this.again && !this.cited) return this.found.at(-1)[0] < at;
    return this.open !== null && (this.open[2] || !this.sure) && this.open[0] < at;
  }

  covers(at) { return this.found.length > 0 && this.found.at(-1)[0] < at && at < this.found.at(-1)[1]; }

  // `apart`: a sentence may have ended since the latest one.
  closes(near, apart) {
    if (!this.open) {
      if (near.sign !== this.again || letter(near.after) || (near.doubtful && (apart || near.amid))) return false;
      if (BLANKS.includes(near.before) && (this.sure || !BLANKS.includes(near.after))) return false;
      if (LEADS.includes(near.before) && !near.cited) return false;
      this.found.push([this.found.pop()[0], near.at + 1, true]);
    } else {
      const [start, opening, unclear] = this.open;
      if (!this.pairs[opening].includes(near.sign) || this.begins(near)) return false;
      if (near.apostrophe && letter(near.after)) return false;
      if (unclear && this.unclear(near)) return false;
      this.found.push([start, near.at + 1, true]);
      this.open = null;
    }
    this.again = near.doubtful ? near.sign : "";
    this.cited = near.cited;
    return true;
  }

  // Whether it does not close what began with a doubtful sign.
  unclear(near) {
    if (near.doubtful && (INCHES.includes(near.sign) || near.amid)) return true;
    return BLANKS.includes(near.before) && BLANKS.includes(near.after) && !near.cited;
  }

  opens(near, apart) {
    if (!this.pairs[near.sign] || (this.open && near.sign !== this.open[1])) return;
    const surely = this.surely(near), unclear = surely ? null : this.maybe(near);
    if (!surely && (unclear === null || !this.unsure)) return;
    if (!surely && this.open && !(this.open[2] && (apart || !unclear))) return;
    if (this.open && !this.unsure) this.found.push([this.open[0], near.at, false]);
    // A sure one begins in the other track.
    this.open = surely && !this.sure ? null : [near.at, near.sign, Boolean(unclear)];
    this.again = "";
  }

  surely(near) {
    if (OPENS_ALWAYS.includes(near.sign) && (!BLANKS.includes(near.after) || "«‹".includes(near.sign))) return true;
    if (OPENS_ALWAYS.includes(near.sign) && !this.open && !near.cited) {
      return BLANKS.includes(near.before) || LEADS.includes(near.before);
    }
    return this.begins(near);
  }

  // null where no quotation begins, else whether it is doubtful that one does.
  maybe(near) {
    const spaced = BLANKS.includes(near.before);
    if (near.elided || near.year) return spaced && near.year ? true : null;
    if (BLANKS.includes(near.after)) {
      if (!(spaced || LEADS.includes(near.before)) || near.cited || near.next === "|") return null;
      if (near.apostrophe && CUT_OFF.test(near.ahead)) return null;
      return spaced && near.doubtful;
    }
    if (letter(near.before)) {
      return INCHES.includes(near.sign) && !DIGIT.test(near.before) && letter(near.after, true) ? false : null;
    }
    return ".,;:!?)]}".includes(near.after) || near.cited ? null : false;
  }

  // Whether the sign stands as one does that opens a quotation.
  begins({ sign, before, after, year, elided }) {
    if (BLANKS.includes(after) || year || elided) return false;
    if (this.open && sign !== this.open[1]) return false;
    const spaced = BLANKS.includes(before) || "([{".includes(before);
    if (this.open || !spaced) return (spaced || !this.open) && !letter(before) && letter(after, true);
    return true;
  }

  // [start, end, whole] of those of a part that ends here.
  taken(end) {
    const found = this.open && !this.unsure ? [...this.found, [this.open[0], Infinity, false]] : this.found;
    return found.filter(([start]) => start < end);
  }
}

// The first part of a text: its pieces, [text, whether it is quoted], and its length. None while more of the text decides
// where it ends; `last`: no more comes.
function part(text, last) {
  const seen = text.slice(0, 2 * (MOST_PART + MOST_MARK)), whole = last && seen.length === text.length;
  const signs = [...seen], double = new Track(DOUBLE, true, false), single = new Track(SINGLE, true, true);
  const unsure = new Track(DOUBLE, false, true), tracks = [double, single, unsure];
  // `stop`: the sign that ends a sentence, if only blanks and marks came after it; " " behind an abbreviation. `held`: where
  // the part ends if no quotation goes on there.
  let at = 0, stop = "", held = null;
  const ended = () => held !== null && !tracks.some((track) => track.goesOn(held));
  const made = (end) => pieces(signs, held === null ? end : held, tracks);
  while (at + (whole ? 0 : AHEAD) < signs.length) {
    if (at >= MOST_PART) return made(at);
    const sign = signs[at];
    if (stop === "" && !SIGNS.has(sign)) { at += 1; continue; }
    const near = new Near(signs, at);
    if (sign === "\n") {
      at += 1;
      if (double.open && near.after !== "\n") continue;
      Object.assign(single, { open: null, again: "" });
      if (near.after === "\n" || !(double.goesOn(Infinity) || unsure.goesOn(Infinity))) return made(at);
      if (held === null) held = at;
      stop = "";
      if (ended()) return made(at);
      continue;
    }
    // Each looks at each sign.
    // What is open is closed before what was closed is closed once more.
    const apart = held !== null, [first, second] = !double.open && unsure.open ? [unsure, double] : [double, unsure];
    const one = first.closes(near, apart) || second.closes(near, apart), closed = single.closes(near, apart) || one;
    if (closed || BLANKS.includes(sign)) {
      if (closed) {
        // What was quoted has ended, and the sentence goes on without a blank.
        if (WIDE_STOPS.includes(stop)) stop = "";
        if (held !== null && tracks.some((track) => track.covers(held))) held = null;
      }
      at += 1;
      if (ended()) return made(at);
      continue;
    }
    if (stop && "[【".includes(sign)) {
      const rest = signs.slice(at, at + MOST_MARK), found = new RegExp(`^${MARK.source}`).exec(rest.join(""));
      if (!found && !whole && rest.length < MOST_MARK && !rest.some((one) => "]】\n".includes(one))) return null;
      if (found && !found[0].includes("\n")) {
        at += [...found[0]].length;
        continue;
      }
    }
    const open = STOPS.includes(sign) || double.isOpen() || single.isOpen();
    if (stop && !open && (WIDE_STOPS.includes(stop) || (stop !== " " && BLANKS.includes(near.before) && !/\p{Lowercase}/u.test(sign)))) {
      if (!tracks.some((track) => track.goesOn(Infinity))) return made(at);
      if (held === null) held = at;
    }
    stop = STOPS.includes(sign) ? stopped(signs, at) : "";
    const idle = !double.open;
    double.opens(near, apart);
    single.opens(near, apart);
    if (idle) unsure.opens(near, apart);
    at += 1;
    if (ended()) return made(at);
  }
  return whole && signs.length ? made(signs.length) : null;
}

// One letter is an abbreviation, and behind a number it is a unit.
function stopped(signs, at) {
  const word = signs[at] === "." && LAST_WORD.exec(signs.slice(Math.max(0, at - 10), at).join(""));
  if (!word) return signs[at];
  const short = ABBREVIATIONS.includes(` ${word[2].toLowerCase()} `) || ([...word[2]].length === 1 && word[1] === undefined);
  return short ? " " : signs[at];
}

function pieces(signs, end, tracks) {
  const taken = tracks.flatMap((track) => track.taken(end)).sort((left, right) => left[0] - right[0] || left[1] - right[1]);
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
