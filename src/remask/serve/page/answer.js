// One verified answer: its verdict, its tokens, its round trips, its metrics, and what can be taken along.
import { bar, metricBars } from "./bars.js";
import { copy, curl, json } from "./clipboard.js";
import { byId, make, number, plural, scoreText } from "./dom.js";
import { Heatmap } from "./heatmap.js";
import { linkTo } from "./link.js";
import { Player } from "./player.js";
import { markdown, save } from "./save.js";
import { isRead, isSureButLost, paintEach, repaint, shown } from "./tokens.js";
import { drifted, sentence, tokensOf } from "./verdict.js";
import { fitFacts, metricWord, scorerWord, thresholdWord } from "./words.js";

const LEGENDS = {
  drift: ["Lost in round trips:", ["d1", "up to 25 %"], ["d2", "50 %"], ["d3", "75 %"], ["d4", "100 %"], ["du", "never masked"]],
  logp: ["Chance of another token, by log p of this one while masked:", ["d1", "up to 25 %"], ["d2", "50 %"], ["d3", "75 %"], ["d4", "100 %"], ["du", "not read"]],
  confidence: ["Probability when written:", ["c1", "below 50 %"], ["c2", "50 %"], ["c3", "80 %"], ["c4", "90 % and more"], ["du", "not known"]],
};

function tripsOf(found) {
  return found.trips.map(({ masked, rebuilt, steps }) => ({
    masked, rebuilt, steps, changed: masked.map((hidden, k) => hidden && rebuilt[k] !== found.tokens[k].text),
  }));
}

function graded(found) {
  if (!found.graded) return null;
  const { right, gold, process_ok: steps } = found.graded;
  if (!right) return `wrong, it is ${shown(gold)}`;
  return steps === false ? "right, by a wrong step" : "right";
}

export class Answer {
  constructor() {
    this.box = byId("answer");
    this.text = byId("answer-text");
    this.heatmap = new Heatmap(byId("heatmap"), (_, token) => this.#mark(token));
    this.player = new Player();
    this.radios = [...document.querySelectorAll("input[name=by]")];
    for (const radio of this.radios) radio.addEventListener("change", () => this.#repaint());
    this.text.addEventListener("pointerover", (event) => {
      const token = Number(event.target.dataset.k ?? -1);
      if (token >= 0 && this.found.trips.length) this.heatmap.point(this.heatmap.losing(token), token);
    });
    this.#copies();
  }

  // `found` is the document of a verification, `asked` the [path, body] of its request, `question`
  // the text of the question.
  show(found, { asked, question, title }) {
    this.found = found;
    this.asked = asked;
    this.question = question;
    this.tokens = tokensOf(found);
    this.box.hidden = false;
    byId("answer-title").textContent = title;
    this.#verdict();
    this.#colours();
    paintEach(this.text, this.tokens, this.#by());
    this.#repaint();
    byId("heat-title").textContent = drifted(found) ? "Where it drifts" : "Nothing drifted";
    const trips = tripsOf(found);
    for (const part of ["trips-part", "player-part"]) byId(part).hidden = trips.length === 0;
    this.heatmap.show(this.tokens, trips);
    if (trips.length) this.player.show(this.tokens, trips);
    const metrics = Object.entries(found.metrics).map(([name, { value, weight }]) => ({ name: metricWord(name), value, weight }));
    const byTrip = Object.values(found.metrics).some((metric) => metric.by_trip.length);
    metricBars(byId("metrics"), metrics, found.score, found.threshold, byTrip);
    byId("copied").textContent = "";
  }

  #verdict() {
    const { found } = this;
    const score = make("p", { name: "score" }, make("strong", { text: scoreText(found.score, found.threshold) }),
      found.stderr === null ? "" : ` \u00b1 ${number(found.stderr)}`);
    const told = make("p", { text: sentence(found), name: "told" });
    const facts = [
      ["result", found.extracted === null ? "none could be read" : shown(found.extracted)],
      ["graded", graded(found)], ["scorer", scorerWord(found.scorer)], ["threshold", thresholdWord(found)],
      ...fitFacts(found),
      ["verifying took", plural(found.cost.forwards, "forward pass", "es")],
      ["arrived after", `${found.cost.seconds.toFixed(1)} s, waiting included`],
    ].filter(([, value]) => value !== null);
    const list = make("dl", { name: "facts" }, ...facts.map(([term, value]) =>
      make("div", {}, make("dt", { text: term }), make("dd", { text: value }))));
    byId("verdict").replaceChildren(score, make("div", { name: `meter ${found.verdict}` }, told, bar(found.score, found.threshold, found.stderr)), list);
  }

  // A probe reads log p of tokens, round trips have their drift: one of the two can be painted.
  #colours() {
    const known = this.#isWrittenHere();
    const [drift, logp, sure] = ["drift", "logp", "confidence"].map((by) => this.radios.find((radio) => radio.value === by));
    const read = this.tokens.some(isRead);
    drift.parentElement.hidden = read;
    logp.parentElement.hidden = !read;
    sure.disabled = !known;
    if (!known || !sure.checked) (read ? logp : drift).checked = true;
    const both = `confident but ${this.#lost()}`;
    const count = this.tokens.filter(isSureButLost).length;
    byId("sure").replaceChildren(!known
      ? "How sure the model was is known only of what it wrote itself."
      : count === 0 ? `No token is ${both}.`
        : make("span", {}, make("span", { text: plural(count, "token"), name: "sd" }), ` of ${this.tokens.length}: ${both}.`));
  }

  // How sure the model was is known only of what it wrote itself.
  #isWrittenHere() {
    return this.tokens.some((token) => token.prob !== null);
  }

  #lost() {
    return this.tokens.some(isRead) ? "doubted" : "drifting";
  }

  #by() {
    return this.radios.find((radio) => radio.checked).value;
  }

  #repaint() {
    const by = this.#by();
    repaint(this.text, this.tokens, by);
    const [title, ...levels] = LEGENDS[by];
    byId("answer-legend").replaceChildren(title, " ", ...levels.flatMap(([name, text]) => [make("span", { name, text }), " "]),
      this.#isWrittenHere() ? make("span", { name: "sd", text: `confident but ${this.#lost()}` }) : "");
  }

  #mark(token) {
    this.text.querySelector(".at")?.classList.remove("at");
    this.text.children[token]?.classList.add("at");
  }

  #copies() {
    const says = byId("copied");
    byId("copy-json").addEventListener("click", () => copy(json(this.found), says));
    byId("copy-curl").addEventListener("click", () => copy(curl(...this.asked), says));
    byId("copy-link").addEventListener("click", () => copy(linkTo(this.asked[0].slice(4), this.asked[1]), says));
    byId("save-json").addEventListener("click", () => this.#save("json", json(this.found), "application/json"));
    byId("save-markdown").addEventListener("click", () => this.#save("md", markdown(this.found, this.question), "text/markdown"));
  }

  #save(ending, text, type) {
    save(text, `remask-${this.found.id}.${ending}`, type);
    byId("copied").textContent = "Saved.";
  }
}
