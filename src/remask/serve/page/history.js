// Earlier questions and their answers, in the storage of this browser, to be shown again or forgotten.
import { button, byId, make, plural, scoreText } from "./dom.js";
import { shown } from "./tokens.js";

const KEY = "remask.history";
const MOST = 20; // questions

// The storage may be closed, or hold something else.
function stored() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((entry) => Array.isArray(entry?.answers) && entry.asked) : [];
  } catch {
    return [];
  }
}

// Keeps what fits, the oldest left out first; without storage the page itself remembers.
function store(entries) {
  for (let from = 0; from <= entries.length; from += 1) {
    try {
      localStorage.setItem(KEY, JSON.stringify(entries.slice(from)));
      return;
    } catch {
      // Full, or closed: with one less it may fit.
    }
  }
}

// The beginning of a text, cut between words unless one word is nearly all of it.
export const short = (text, most = 88) => {
  const line = shown(text).replace(/\s+/g, " ");
  if (line.length <= most) return line;
  const space = line.lastIndexOf(" ", most - 1);
  return `${line.slice(0, space > most / 2 ? space : most - 1)}\u2026`;
};

// An answer in a few words: its score and what to make of it.
export function summary(found) {
  if (found.score === null) return "no score";
  return `${scoreText(found.score, found.threshold)}, ${found.verdict ?? "unknown"}`;
}

// The answer that an entry came to: the one decided on, or the last that arrived.
export const chosen = (entry) => entry.decision?.number ?? entry.answers.length - 1;

function when(time) {
  return new Date(time).toLocaleString([], { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
}

export class History {
  // `show` is called with the entry that a person wants to see, `changed` when there are others.
  constructor(show, changed) {
    [this.show, this.changed] = [show, changed];
    this.box = byId("past");
    this.list = byId("past-list");
    this.entries = stored();
    byId("forget").addEventListener("click", () => this.#forget());
    this.#list();
  }

  // An entry is {time, mode, asked, question, answers, decision}.
  add(entry) {
    this.entries = [...this.entries, entry].slice(-MOST);
    store(this.entries);
    this.#list();
  }

  #forget() {
    this.entries = [];
    try {
      localStorage.removeItem(KEY);
    } catch {
      // There was nothing then.
    }
    this.#list();
    byId("prompt").focus();
  }

  #list() {
    this.box.hidden = this.entries.length === 0;
    byId("past-says").textContent = `${plural(this.entries.length, "question")}, kept in this browser and nowhere else.`;
    this.list.replaceChildren(...[...this.entries].reverse().map((entry) => this.#row(entry)));
    this.changed(this.entries);
  }

  #row(entry) {
    const found = entry.answers[chosen(entry)];
    const did = entry.mode === "verify" ? "checked" : `solved, ${plural(entry.answers.length, "candidate")}`;
    const about = make("span", { text: `${when(entry.time)}, ${did}: ${found ? summary(found) : "no answer"}`, name: "note" });
    const again = button(short(entry.question), () => this.show(entry), "again");
    again.append(make("br"), about);
    return make("li", {}, again);
  }
}
