// Two answers side by side: any two that the history holds.
import { bar } from "./bars.js";
import { byId, make, number, option, plural, scoreText } from "./dom.js";
import { short, summary } from "./history.js";
import { paint, shown } from "./tokens.js";
import { tokensOf } from "./verdict.js";
import { fitFacts, metricWord, scorerWord, thresholdWord } from "./words.js";

const titled = (entry, count) => (entry.mode === "verify" ? "Your answer" : `Candidate ${count + 1}`);
const label = ({ entry, found, title }) => `${title}, ${summary(found)}: ${short(entry.question, 40)}`;

function facts(entry, found) {
  const result = found.extracted === null ? "none could be read" : shown(found.extracted);
  const list = [["result", result], ["scorer", scorerWord(found.scorer)], ["threshold", thresholdWord(found)],
    ...fitFacts(found),
    ["verifying took", plural(found.cost.forwards, "forward pass", "es")]];
  return make("dl", { name: "facts" }, ...list.map(([term, value]) =>
    make("div", {}, make("dt", { text: term }), make("dd", { text: value }))));
}

function side({ entry, found, title }) {
  const text = make("div", { name: "text code", role: "group", tabindex: "0", "aria-label": `${title}, token by token` });
  text.dir = "auto";
  paint(text, tokensOf(found));
  const word = { trust: "Trust", undecided: "Undecided", doubt: "Doubt" }[found.verdict] ?? "Unknown";
  const score = make("p", { name: "score" }, make("strong", { text: scoreText(found.score, found.threshold) }),
    found.stderr === null ? "" : ` \u00b1 ${number(found.stderr)}`);
  return make("div", { name: `side meter ${found.verdict}` }, make("h3", { text: title }),
    make("p", { text: short(entry.question, 200), name: "note" }), score,
    make("p", { text: word, name: "told" }), bar(found.score, found.threshold, found.stderr), facts(entry, found), text);
}

// The metrics of both, and how far the right one is above the left one; scores of two scorers are
// on two scales, so their difference says nothing.
function metrics(left, right) {
  const names = [...new Set([...Object.keys(left.metrics), ...Object.keys(right.metrics)])];
  const value = (found, name) => found.metrics[name]?.value ?? null;
  const row = (name, a, b, isOneScale = true) => {
    const change = a === null || b === null || !isOneScale ? "" : `${b < a ? "\u2212" : "+"}${Math.abs(b - a).toFixed(3)}`;
    return make("tr", {}, make("th", { text: name, scope: "row" }),
      ...[number(a), number(b), change].map((text) => make("td", { text, name: "figure" })));
  };
  const head = make("tr", {}, ...["metric", "left", "right", "difference"].map((text) => make("th", { text, scope: "col" })));
  const rows = [...names.map((name) => row(metricWord(name), value(left, name), value(right, name))),
    row("score", left.score, right.score, left.scorer === right.scorer)];
  return make("table", { name: "metrics both" }, make("caption", { text: "The metrics of both", name: "unseen" }),
    make("thead", {}, head), make("tbody", {}, ...rows));
}

export class Compare {
  constructor() {
    this.box = byId("compare");
    this.selects = [byId("compare-left"), byId("compare-right")];
    this.pair = null; // the answers that a person chose; until then the two latest are shown
    for (const select of this.selects) {
      select.addEventListener("change", () => {
        this.pair = this.selects.map((each) => this.answers[Number(each.value)].found);
        this.#show();
      });
    }
  }

  offer(entries) {
    this.answers = entries.flatMap((entry) => entry.answers.map((found, k) => ({ entry, found, title: titled(entry, k) })));
    this.box.hidden = this.answers.length < 2;
    for (const select of this.selects) {
      select.replaceChildren(...this.answers.map((answer, k) => option(label(answer), k)));
    }
    if (this.box.hidden) return;
    const places = (this.pair ?? []).map((found) => this.answers.findIndex((answer) => answer.found === found));
    const known = places.length === 2 && !places.includes(-1);
    const shown = known ? places : [this.answers.length - 2, this.answers.length - 1];
    this.selects.forEach((select, k) => { select.value = String(shown[k]); });
    this.#show();
  }

  #show() {
    const [left, right] = this.selects.map((select) => this.answers[Number(select.value)]);
    byId("compare-sides").replaceChildren(side(left), side(right));
    byId("compare-metrics").replaceChildren(metrics(left.found, right.found));
  }
}
