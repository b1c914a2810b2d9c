// The threshold slider: what a threshold accepts of a study, live, and where it can be promised.
import { button, make, number, option, percent, plural, whole } from "./dom.js";
import { GRID, bestF1, certify, fewestAnswers, outcome } from "./threshold.js";
import { shown } from "./tokens.js";

const BINS = 50;
const NAMES = { roundtrips: "round trips", confidence: "confidence" };
const [, SVG] = 'xmlns="http://www.w3.org/2000/svg"'.split('"'); // a name, nothing is asked there

function draw(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const at = (share) => `${100 * share}%`;

function counted(answers, right) {
  const bins = new Array(BINS).fill(0);
  for (const answer of answers) {
    if (answer.score !== null && answer.right === right) {
      bins[Math.min(BINS - 1, Math.max(0, Math.floor(answer.score * BINS)))] += 1;
    }
  }
  return bins;
}

function field(text, input) {
  return make("label", {}, `${text} `, input);
}

function share(value) {
  return make("input", { type: "number", min: "0.01", max: "0.99", step: "0.01", value });
}

export class Slider {
  constructor(box) {
    this.study = make("select");
    this.score = make("select");
    this.risk = share("0.1");
    this.confidence = share("0.95");
    this.range = make("input", { type: "range", min: "0", max: "1", step: "0.01", value: "0.75", name: "scrub" });
    this.label = make("span", { name: "value" });
    this.picture = draw("svg", { class: "histogram", role: "img" });
    this.tiles = make("dl", { name: "tiles" });
    this.promise = make("p", { name: "promise", role: "status" });
    this.jumps = make("p", { name: "jumps" });
    box.replaceChildren(...this.#parts());
    this.study.addEventListener("change", () => this.#choose());
    this.score.addEventListener("change", () => this.#measure());
    for (const input of [this.risk, this.confidence]) input.addEventListener("input", () => this.#measure());
    this.range.addEventListener("input", () => this.#tell());
  }

  #parts() {
    const fields = make("div", { name: "fields" }, field("Study", this.study), field("Score", this.score),
      field("Wrong at most", this.risk), field("with confidence", this.confidence));
    const key = make("p", { name: "legend" }, make("span", { text: "right", name: "key-right" }), " above the line, ",
      make("span", { text: "wrong", name: "key-wrong" }), " below it, ",
      make("span", { text: "certified", name: "key-safe" }), " thresholds beneath");
    const slider = make("label", { name: "slide" }, make("span", { text: "Threshold" }), this.label, this.range);
    return [fields, key, make("div", { name: "chart" }, this.picture, slider), this.tiles, this.promise, this.jumps];
  }

  show(groups) {
    this.groups = groups;
    this.study.replaceChildren(...groups.map((group, k) => option(shown(group.name), k)));
    this.#choose();
  }

  #choose() {
    const group = this.groups[Number(this.study.value)];
    this.score.replaceChildren(...group.scores.map((name) => option(NAMES[name] ?? shown(name), name)));
    if (group.threshold !== null) this.range.value = String(group.threshold);
    this.#measure();
  }

  #measure() {
    const group = this.groups[Number(this.study.value)];
    const score = (answer) => (typeof answer.scores[this.score.value] === "number" ? answer.scores[this.score.value] : null);
    this.answers = group.answers.map((answer) => ({ right: answer.right, score: score(answer) }));
    const [risk, confidence] = [this.risk, this.confidence].map((input) => Number(input.value));
    this.asked = risk > 0 && risk < 1 && confidence > 0 && confidence < 1 ? { risk, confidence } : null;
    this.found = this.asked ? certify(this.answers, risk, confidence) : { proved: GRID.map(() => false), best: null };
    this.#picture();
    this.#jumps();
    this.#tell();
  }

  #picture() {
    const right = counted(this.answers, true);
    const wrong = counted(this.answers, false);
    const most = Math.max(1, ...right, ...wrong);
    const bars = [];
    for (let k = 0; k < BINS; k += 1) {
      const place = { x: at((k + 0.08) / BINS), width: at(0.84 / BINS) };
      const up = (84 * right[k]) / most;
      if (right[k]) bars.push(draw("rect", { ...place, y: 90 - up, height: up, class: "right" }));
      if (wrong[k]) bars.push(draw("rect", { ...place, y: 91, height: (84 * wrong[k]) / most, class: "wrong", fill: "url(#hatched)" }));
    }
    const safe = GRID.filter((_, k) => this.found.proved[k])
      .map((threshold) => draw("rect", { x: at(threshold), width: "1.05%", y: 180, height: 9, class: "safe" }));
    this.line = draw("line", { y1: 0, y2: 189, class: "limit" });
    const hatch = draw("pattern", { id: "hatched", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      draw("rect", { width: 5, height: 5, class: "wrong-back" }), draw("rect", { width: 2, height: 5, class: "wrong-lines" }));
    this.picture.replaceChildren(draw("defs", {}, hatch), ...bars,
      draw("line", { x1: 0, x2: "100%", y1: 90.5, y2: 90.5, class: "axis" }), ...safe, this.line);
    const judged = this.answers.filter((answer) => answer.right).length;
    this.picture.setAttribute("aria-label",
      `Scores of ${plural(judged, "right answer")} and ${whole(this.answers.length - judged)} wrong; ${plural(safe.length, "threshold")} certified`);
  }

  // Where every answer is right, or every one wrong, no threshold is better than another.
  #jumps() {
    const right = this.answers.filter((answer) => answer.right).length;
    if (right === 0 || right === this.answers.length) {
      this.jumps.textContent = `No ${right ? "wrong" : "right"} answers: nothing to choose a threshold by.`;
      return;
    }
    const go = (threshold) => () => { this.range.value = String(threshold); this.#tell(); };
    const { threshold: judged } = this.groups[Number(this.study.value)];
    const jumps = judged === null || this.score.value !== "roundtrips" ? [] : [button(`judged by, ${judged}`, go(judged))];
    const best = bestF1(this.answers);
    const takesAll = this.answers.every((answer) => answer.score !== null && answer.score > best);
    if (!takesAll) jumps.push(button(`best F1, ${best.toFixed(2)}`, go(best)));
    const safe = this.found.best;
    if (safe) jumps.push(button(`certified, ${safe.threshold.toFixed(2)}`, go(safe.threshold)));
    const aside = takesAll ? "Accepting every answer has the best F1. " : "";
    this.jumps.replaceChildren(aside, jumps.length ? "Go to " : "", ...jumps.flatMap((jump) => [jump, " "]));
  }

  #tell() {
    const threshold = Number(this.range.value);
    const fared = outcome(this.answers, threshold);
    this.label.textContent = threshold.toFixed(2);
    this.range.setAttribute("aria-valuetext", `${threshold.toFixed(2)}: precision ${percent(fared.precision)}, coverage ${percent(fared.coverage)}`);
    this.line.setAttribute("x1", at(threshold));
    this.line.setAttribute("x2", at(threshold));
    const tiles = [
      ["precision", percent(fared.precision, 1), `${whole(fared.wrong)} wrong of ${whole(fared.accepted)} accepted`],
      ["coverage", percent(fared.coverage, 1), `of ${plural(fared.n, "answer")}`],
      ["recall", percent(fared.recall, 1), "of the right answers are accepted"],
      ["F1", number(fared.f1, 3), "of precision and recall"],
    ];
    this.tiles.replaceChildren(...tiles.map(([term, value, note]) =>
      make("div", {}, make("dt", { text: term }), make("dd", { text: value }), make("dd", { text: note, name: "note" }))));
    this.promise.textContent = this.#promise(fared);
    this.promise.classList.toggle("safe", this.#isProved(threshold));
  }

  #isProved(threshold) {
    const k = GRID.indexOf(threshold);
    return k >= 0 && this.found.proved[k];
  }

  #promise(fared) {
    if (!this.asked) return "Both shares must lie between 0 and 1, such as 0.1 and 0.95.";
    const { risk, confidence } = this.asked;
    const promise = `at most ${percent(risk)} of what it accepts is wrong, with ${percent(confidence)} confidence`;
    if (this.#isProved(fared.threshold)) return `Certified: ${promise}.`;
    if (this.found.best) return `Not certified: these answers do not prove that ${promise}.`;
    const needed = fewestAnswers(risk, confidence);
    return `No threshold can be certified here. That ${promise}, takes at least ${plural(needed, "accepted answer")} without a wrong one.`;
  }
}
