// The problem box: a question, perhaps an answer to check, examples of every task, and settings.
import { examples } from "./api.js";
import { button, byId, make, option } from "./dom.js";
import { shown } from "./tokens.js";

const COUNT = 4; // examples of a task at a time
const TRIPS = ["trips", "rebuild_steps", "mask_ratio"]; // settings that no other scorer has

function short(prompt) {
  const line = shown(prompt).replace(/\s+/g, " ");
  return line.length > 88 ? `${line.slice(0, 87)}\u2026` : line;
}

export class Problem {
  // `ask` is called with ("solve" or "verify", body) when the person asks, `fail` with the error
  // where examples cannot be had.
  constructor(ask, fail) {
    this.form = byId("ask");
    this.prompt = byId("prompt");
    this.answer = byId("own");
    this.task = byId("task");
    this.level = byId("level");
    this.example = null;
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
    this.#mode();
  }

  // Fills in what the served model knows: its tasks, its defaults, its limits. The threshold stays
  // blank: which one the preset has depends on the kind of the question.
  async serve(model) {
    const { tasks, defaults, limits, kinds, scorer } = model.remask;
    for (const name of TRIPS) this.form.elements[name].disabled = scorer !== "roundtrips";
    this.tasks = tasks;
    this.task.replaceChildren(...Object.keys(tasks).map((name) => option(name, name)));
    byId("kind").replaceChildren(...kinds.map((name) => option(name, name)));
    for (const [name, value] of Object.entries(defaults)) {
      const input = this.form.elements[name];
      if (input && value !== null) input.defaultValue = String(value);
      if (input && limits[name]) input.max = String(limits[name]);
    }
    await this.#levels();
  }

  async #levels() {
    this.level.replaceChildren(...this.tasks[this.task.value].map((name) => option(name, name)));
    await this.#examples();
  }

  async #examples() {
    const wanted = [this.task.value, this.level.value];
    const found = await examples(...wanted, COUNT);
    // Another task or level may have been chosen meanwhile, and answered sooner.
    if (wanted[0] !== this.task.value || wanted[1] !== this.level.value) return;
    const list = byId("examples");
    [list.dataset.task, list.dataset.level] = wanted;
    list.replaceChildren(...found.map((example) =>
      make("li", {}, button(short(example.prompt), () => this.choose(example), "example"))));
  }

  choose(example) {
    this.example = example;
    this.prompt.value = example.prompt;
    byId("kind").value = example.kind;
    this.form.elements.seed.value = String(example.seed);
    const says = { right: "a right solution", flawed: "a right result by a wrong step", wrong: "a wrong solution" };
    byId("ready-made").replaceChildren(...example.answers.map(({ label, text }) =>
      button(says[label] ?? shown(label), () => { this.answer.value = text; }, "chip")));
    this.answer.value = example.answers[0]?.text ?? "";
    this.prompt.focus();
  }

  mode() {
    return this.form.elements.mode.value;
  }

  #mode() {
    const own = this.mode() === "verify";
    byId("own-part").hidden = !own;
    byId("budget-part").hidden = own;
    this.answer.required = own;
    byId("go").textContent = own ? "Verify" : "Solve";
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
    const settings = { trace: true };
    for (const name of [...TRIPS, "threshold", "budget"]) {
      const { value, disabled } = elements[name];
      if (value !== "" && !disabled && !(name === "budget" && this.mode() === "verify")) {
        settings[name] = Number(elements[name].value);
      }
    }
    const body = { ...this.#question(), remask: settings };
    return this.mode() === "verify" ? { ...body, answer: this.answer.value } : { ...body, stream: true };
  }

  busy(running) {
    byId("go").disabled = running;
    byId("stop").hidden = !running;
    this.form.setAttribute("aria-busy", String(running));
  }
}
