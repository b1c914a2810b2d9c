// Tokens: how they read and how they are painted, here and in saved reports.
//
// A token is {text, drift, logp, prob, special}: drift is the share of the round trips that masked it
// and did not bring it back, null where none masked it; logp is log p of it while it was masked, null
// where no probe read it, undefined where no probe reads tokens; prob is its probability when it was
// written, null where that is not known; a special one, such as the end, stands for no text.
import { make, percent } from "./dom.js";

// Controls, invisible signs, what turns the reading order around, halves of characters. Line
// breaks and tabs stay, and so do joiners, without which some scripts cannot be written.
const UNSEEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5"
  + "\\u180b-\\u180e\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0d\\ufeff"
  + "\\uffa0\\ufff0-\\ufffb\\ud800-\\udfff\\u{e0000}-\\u{e0fff}]",
  "gu",
);
const SURE = 0.9; // the probability from which on the model was confident of a token
const LOST = 0.5; // the drift, or the chance of another token, from which on a token is in doubt

function escaped(sign) {
  const code = sign.codePointAt(0);
  if (sign === "\r") return "\\r";
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  return code < 0x10000
    ? `\\u${code.toString(16).padStart(4, "0")}`
    : `\\U${code.toString(16).padStart(8, "0")}`;
}

// The text with every sign written out that would not be seen, or would move others.
export const shown = (text) => text.replace(UNSEEN, escaped);

// A token as a name: line breaks and blanks are seen too.
export const named = (text) =>
  `\u201c${shown(text).replace(/\n/g, "\u21b5").replace(/\t/g, "\u21e5").replace(/^ | $/g, "\u2423")}\u201d`;

const isSure = (token) => token.prob !== null && token.prob !== undefined && token.prob >= SURE;
export const isRead = (token) => token.logp !== undefined;

// The chance of another token, in whole percents: what drift is to round trips.
const doubt = (logp) => (logp === null ? null : Math.round(100 * (1 - Math.exp(logp))) / 100);
const loss = (token) => (isRead(token) ? doubt(token.logp) : token.drift);
export const isSureButLost = (token) => isSure(token) && loss(token) !== null && loss(token) >= LOST;

function lossLevel(lost) {
  if (lost === null) return "du";
  return lost === 0 ? "" : `d${Math.min(4, Math.ceil(4 * lost - 1e-9))}`;
}

function confidenceLevel(prob) {
  if (prob === null || prob === undefined) return "du";
  return `c${1 + [0.5, 0.8, SURE].filter((limit) => prob >= limit).length}`;
}

export function driftTitle(drift) {
  return drift === null ? "no trip masked this" : `lost in ${Math.round(100 * drift)} % of the trips that masked it`;
}

const chance = (prob) => (prob > 0.995 ? "over 99 %" : percent(prob));

function readTitle(logp) {
  if (logp === null) return "no probe read this";
  const size = Math.abs(logp).toFixed(3);
  return `log p ${Number(size) ? "\u2212" : ""}${size} while masked, a chance of ${chance(Math.exp(logp))}`;
}

// How sure the model was of a token, as a clause; nothing where that is not known.
export function sureness(token) {
  if (token.prob === null || token.prob === undefined) return "";
  return `, written with a probability of ${chance(token.prob)}`;
}

const title = (token) => (isRead(token) ? readTitle(token.logp) : driftTitle(token.drift)) + sureness(token);

// The classes of a token: how far it is lost or how sure it was, and whether both are high.
function look(token, by) {
  const level = by === "confidence" ? confidenceLevel(token.prob) : lossLevel(loss(token));
  return [level, isSureButLost(token) ? "sd" : "", token.special ? "special" : ""].filter(Boolean).join(" ");
}

// Appends an answer to a box, tokens that look like nothing as plain text.
export function paint(box, tokens) {
  for (const token of tokens) {
    const name = look(token, "drift");
    const text = shown(token.text);
    box.append(name ? make("span", { text, name, title: title(token) }) : text);
  }
  return box;
}

// Fills a box with one element for each token, which `repaint` can paint otherwise.
export function paintEach(box, tokens, by) {
  box.replaceChildren(...tokens.map((token, k) => make("span", { text: shown(token.text), "data-k": k })));
  repaint(box, tokens, by);
}

export function repaint(box, tokens, by) {
  [...box.children].forEach((span, k) => {
    span.className = look(tokens[k], by);
    span.title = title(tokens[k]);
  });
}
