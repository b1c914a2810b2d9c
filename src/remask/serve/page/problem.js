// The problem box: a question, perhaps an answer to check, examples of every task, and settings.
import { examples } from "./api.js";
import { button, byId, make, option } from "./dom.js";
import { short } from "./history.js";
import { shown } from "./tokens.js";
import { kindWord, taskWord } from "./words.js";

const COUNT = 4; // examples of a task at a time
const TRIPS = ["trips", "rebuild_steps", "mask_ratio"]; // settings that no other scorer has
const DRAWN = ["temperature", "max_tokens"]; // settings of answers that are written
const SCORERS = {
  roundtrips: "round trips: hide and rebuild", verifier: "verifier: a few probes", probe: "probe: one pass",
  confidence: "confidence when written", self_evaluation: "self-evaluation: ask the model", editor: "editor's agreement",
  dise: "DiSE", perplexity: "masked likelihood", length: "length",
};
const READY = { right: "a right solution", flawed: "a right result by a wrong step", wrong: "a wrong solution" };

export class Problem {
  // `ask` is called with ("solve" or "verify", body) when the person asks, `fail` with the error
  // where examples cannot be had, `scored` with the name of the scorer when another is chosen.
  constructor({ ask, fail, scored }) {
    this.form = byId("ask");
    this.prompt = byId("prompt");
    this.answer = byId("own");
    this.task = byId("task");
    this.level = byId("level");
    this.scorer = byId("scorer");
    this.example = null;
    this.scored = scored;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.form.reportValidity()) ask(this.mode(), this.body());
    });
    this.form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.form.requestSubmit();
    });
    for (const radio of this.form.elements.mode) radio.addEventListener("change", () => this.#mode());
    this.task.addEventListener("change", () => this.#levels().catch(fail));
    this.level.addEventListener("change", () => this.#examples().catch(fail));
    this.scorer.addEventListener("change", () => this.#scorer());
    this.#mode();
  }

  // Fills in what the served model knows: its tasks, its defaults, its limits, and the first
  // example. The threshold stays blank: which one the preset has depends on the kind of the
  // question; so does how answers are drawn.
  async serve(model) {
    const { tasks, defaults, limits, kinds, scorer, scorers, max_length } = model.remask;
    this.served = scorer;
    this.scorer.replaceChildren(...scorers.map((name) => option(SCORERS[name] ?? shown(name), name)));
    this.scorer.value = scorer;
    this.#scorer();
    this.tasks = tasks;
    this.task.replaceChildren(...Object.keys(tasks).map((name) => option(taskWord(name), name)));
    byId("kind").replaceChildren(...kinds.map((name) => option(kindWord(name), name)));
    for (const [name, value] of Object.entries(defaults)) {
      const input = this.form.elements[name];
      if (input && value !== null) input.defaultValue = String(value);
      if (input && limits[name]) input.max = String(limits[name]);
    }
    this.form.elements.max_tokens.max = String(Math.min(limits.max_tokens, max_length));
    const [first] = await this.#levels();
    if (first && this.prompt.value === "" && this.answer.value === "") this.#fill(first);
  }

  async #levels() {
    this.level.replaceChildren(...this.tasks[this.task.value].map((name) => option(name, name)));
    return this.#examples();
  }

  async #examples() {
    const wanted = [this.task.value, this.level.value];
    const found = await examples(...wanted, COUNT);
    // Another task or level may have been chosen meanwhile, and answered sooner.
    if (wanted[0] !== this.task.value || wanted[1] !== this.level.value) return [];
    const list = byId("examples");
    [list.dataset.task, list.dataset.level] = wanted;
    list.replaceChildren(...found.map((example) =>
      make("li", {}, button(short(example.prompt), () => this.choose(example), "example"))));
    return found;
  }

  choose(example) {
    this.#fill(example);
    this.prompt.focus();
  }

  #fill(example, answer = example.answers[0]?.text ?? "") {
    this.example = example;
    this.prompt.value = example.prompt;
    byId("kind").value = example.kind;
    this.form.elements.seed.value = String(example.seed);
    byId("ready-made").replaceChildren(...example.answers.map(({ label, text }) =>
      button(READY[label] ?? shown(label), () => { this.answer.value = text; }, "chip")));
    this.answer.value = answer;
  }

  // Whether the model that is served has the scorer, the kind and the task of a request.
  knows(body) {
    const has = (select, value) => value === undefined || [...select.options].some((one) => one.value === value);
    return has(this.scorer, body.remask.scorer) && has(byId("kind"), body.kind) && has(this.task, body.task);
  }

  // Fills in an earlier request, or one that a link brought.
  async restore(mode, body) {
    const { elements } = this.form;
    elements.mode.value = mode;
    this.#mode();
    this.scorer.value = body.remask.scorer ?? this.served;
    if (this.scorer.selectedIndex < 0) this.scorer.value = this.served; // it was asked of another server
    this.#scorer();
    for (const name of [...TRIPS, "threshold", "budget"]) {
      elements[name].value = String(body.remask[name] ?? elements[name].defaultValue);
    }
    for (const name of DRAWN) elements[name].value = String(body[name] ?? "");
    if (body.task !== undefined) {
      const [example] = await examples(body.task, body.level ?? "", 1, body.seed ?? 0);
      this.#fill(example, body.answer);
      return;
    }
    this.example = null;
    byId("ready-made").replaceChildren();
    this.prompt.value = body.prompt;
    if (body.answer !== undefined) this.answer.value = body.answer;
    byId("kind").value = body.kind ?? "number";
    elements.seed.value = String(body.seed ?? 0);
  }

  mode() {
    return this.form.elements.mode.value;
  }

  #mode() {
    const own = this.mode() === "verify";
    byId("own-part").hidden = !own;
    for (const name of ["budget", ...DRAWN]) this.form.elements[name].parentElement.hidden = own;
    this.answer.required = own;
    byId("go").textContent = own ? "Verify" : "Solve";
  }

  #scorer() {
    for (const name of TRIPS) {
      const field = this.form.elements[name];
      field.disabled = this.scorer.value !== "roundtrips";
      field.parentElement.hidden = field.disabled;
    }
    this.scored(this.scorer.value);
  }

  // Names the example itself where nothing was changed: then the server can grade the answer.
  #question() {
    const seed = Number(this.form.elements.seed.value);
    const { example } = this;
    const kind = byId("kind").value;
    if (example && example.prompt === this.prompt.value && example.seed === seed && example.kind === kind) {
      return { task: example.task, level: example.level, seed };
    }
    return { prompt: this.prompt.value, kind, seed };
  }

  body() {
    const { elements } = this.form;
    const own = this.mode() === "verify";
    const settings = { trace: true };
    if (this.scorer.value !== this.served) settings.scorer = this.scorer.value;
    for (const name of [...TRIPS, "threshold", ...(own ? [] : ["budget"])]) {
      const { value, disabled } = elements[name];
      if (value !== "" && !disabled) settings[name] = Number(value);
    }
    const body = { ...this.#question(), remask: settings };
    if (own) return { ...body, answer: this.answer.value };
    for (const name of DRAWN) {
      if (elements[name].value !== "") body[name] = Number(elements[name].value);
    }
    return { ...body, stream: true };
  }

  // A sentence of the server, which speaks of the fields of a request, with what they are called here.
  worded(sentence) {
    const told = sentence.replace(/\bremask\.([a-z_]+)|\b(max_tokens)\b/g, (whole, setting, other) => {
      const label = this.form.elements.namedItem(setting ?? other)?.closest?.("label");
      return label ? `\u201c${label.firstChild.textContent.trim()}\u201d` : whole;
    });
    return told.charAt(0).toUpperCase() + told.slice(1);
  }

  busy(running) {
    byId("go").disabled = running;
    this.form.setAttribute("aria-busy", String(running));
  }
}
