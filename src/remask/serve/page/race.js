// The race: one lane for each candidate, its score against the threshold, the accepted one wins.
import { bar } from "./bars.js";
import { byId, make, number, plural, scoreText, whole } from "./dom.js";
import { shown } from "./tokens.js";

function lane(count, choose) {
  const pick = make("button", { name: "pick", type: "button", "aria-pressed": "false", text: String(count + 1) });
  pick.setAttribute("aria-label", `Show candidate ${count + 1}`);
  pick.disabled = true;
  const parts = {
    pick,
    text: make("p", { name: "text code said" }),
    result: make("span", { name: "result" }),
    track: make("div", { name: "track" }),
    badge: make("span", { name: "badge", text: "writing" }),
  };
  parts.text.dir = "auto";
  parts.row = make("li", { name: "lane" }, pick, parts.text, parts.track, make("div", { name: "state" }, parts.badge, parts.result));
  parts.row.addEventListener("click", () => { if (!pick.disabled) choose(); });
  return parts;
}

export class Race {
  // `chosen` is called with the number of the candidate that is to be shown.
  constructor(chosen) {
    this.chosen = chosen;
    this.list = byId("lanes");
    this.says = byId("race-says");
    this.lanes = [];
  }

  // A threshold of null is not known yet; a budget that nobody has told is undefined.
  begin(threshold, budget) {
    this.threshold = threshold;
    this.follows = true; // the newest, until the person has chosen one
    this.lanes = [];
    this.list.replaceChildren();
    this.says.textContent = `Writing candidate 1${budget ? ` of at most ${budget}` : ""}.`;
  }

  // The same once more: the draws are the same too, so what came stays until it comes again.
  again() {
    for (const parts of this.lanes) {
      if (parts.pick.disabled) parts.badge.textContent = "writing";
    }
    this.says.textContent = this.lanes.length ? "Trying again. What came before stays." : "Trying again.";
  }

  #lane(count) {
    while (this.lanes.length <= count) {
      const which = this.lanes.length;
      const parts = lane(which, () => {
        this.follows = false;
        this.choose(which);
      });
      parts.track.append(bar(0, this.threshold));
      this.lanes.push(parts);
      this.list.append(parts.row);
    }
    return this.lanes[count];
  }

  block({ number: count, text }) {
    const parts = this.#lane(count);
    if (parts.pick.disabled) parts.text.textContent = shown(text);
  }

  attempt({ number: count, text, extracted }) {
    const parts = this.#lane(count);
    if (!parts.pick.disabled) return; // it came before
    parts.text.textContent = shown(text) || "(empty)";
    parts.badge.textContent = "verifying";
    parts.result.textContent = extracted === null ? "no result" : `result ${shown(extracted)}`;
    this.says.textContent = `Candidate ${count + 1} is written; now it is scored.`;
  }

  verification({ number: count, score, stderr, threshold, verdict }) {
    const parts = this.#lane(count);
    const told = score === null ? "no score" : scoreText(score, threshold) + (stderr === null ? "" : ` \u00b1 ${number(stderr)}`);
    parts.track.replaceChildren(bar(score, threshold, stderr), make("span", { text: told, name: "figure" }));
    const side = score !== null && score > threshold ? "above" : "not above";
    parts.badge.textContent = verdict === "unknown" ? side : verdict;
    parts.row.classList.add(side === "above" ? "above" : "below");
    parts.pick.disabled = false;
    this.says.textContent = `Candidate ${count + 1} scored ${told}, ${side} the threshold ${threshold}.`;
    if (this.follows) this.choose(count);
  }

  decision({ action, number: count, num_attempts: drawn, cost }) {
    const parts = this.#lane(count);
    parts.row.classList.add("won");
    parts.badge.textContent = action === "accept" ? "\u2713 accepted" : "best of all";
    this.says.textContent = action === "accept"
      ? `Candidate ${count + 1} wins, after ${plural(drawn, "candidate")} and ${whole(cost.forwards)} forward passes.`
      : drawn === 1 ? "The only candidate was not confirmed."
        : `None of ${plural(drawn, "candidate")} was confirmed; candidate ${count + 1} is the best of them.`;
    if (this.follows) this.choose(count);
  }

  choose(count) {
    this.lanes.forEach((parts, k) => {
      parts.pick.setAttribute("aria-pressed", String(k === count));
      parts.row.classList.toggle("shown", k === count);
    });
    this.chosen(count);
  }

  // What is still being written will not be finished.
  stop(sentence) {
    for (const parts of this.lanes) {
      if (parts.pick.disabled) parts.badge.textContent = "cut off";
    }
    this.says.textContent = sentence;
    byId("race").hidden = this.lanes.length === 0;
  }
}
