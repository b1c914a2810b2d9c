// The round-trip player: the answer, the same with holes, and how the model fills them, step by step.
import { byId, make, option, plural } from "./dom.js";
import { named, shown } from "./tokens.js";

const PACE = 350; // milliseconds of a step while playing
const ORIGINAL = 0;
const MASKED = 1;

// How often the model filled holes of a trip; steps are numbered from 0.
export function numSteps(trip) {
  return 1 + trip.steps.reduce((most, step, k) => (trip.masked[k] ? Math.max(most, step) : most), 0);
}

// What token k is in a frame: "", "hole", "held" or "changed".
export function stateAt(trip, k, frame) {
  if (!trip.masked[k] || frame === ORIGINAL) return "";
  if (frame === MASKED || trip.steps[k] > frame - MASKED - 1) return "hole";
  return trip.changed[k] ? "changed" : "held";
}

export class Player {
  constructor() {
    this.text = byId("player-text");
    this.scrub = byId("player-scrub");
    this.choice = byId("player-trip");
    this.toggle = byId("player-play");
    this.says = byId("player-says");
    this.timer = 0;
    this.trips = [];
    this.tokens = [];
    this.scrub.addEventListener("input", () => { this.pause(); this.seek(Number(this.scrub.value)); });
    this.choice.addEventListener("change", () => this.choose(Number(this.choice.value)));
    this.toggle.addEventListener("click", () => (this.timer ? this.pause() : this.play()));
    byId("player-back").addEventListener("click", () => { this.pause(); this.seek(this.frame - 1); });
    byId("player-on").addEventListener("click", () => { this.pause(); this.seek(this.frame + 1); });
  }

  show(tokens, trips) {
    this.pause();
    this.tokens = tokens;
    this.trips = trips;
    this.choice.replaceChildren(...trips.map((trip, k) => {
      const lost = trip.changed.filter(Boolean).length;
      return option(`trip ${k + 1}: ${lost ? `${plural(lost, "token")} lost` : "all came back"}`, k);
    }));
    const spans = tokens.map((token) => make("span", { text: shown(token.text) }));
    this.text.replaceChildren(...spans);
    this.states = tokens.map(() => "");
    this.choose(0);
  }

  choose(number) {
    if (!this.trips.length) return;
    this.trip = this.trips[number];
    this.choice.value = String(number);
    this.last = MASKED + numSteps(this.trip);
    this.scrub.max = String(this.last);
    this.states = this.states.map(() => null);
    this.seek(ORIGINAL);
  }

  seek(frame) {
    this.frame = Math.min(Math.max(frame, ORIGINAL), this.last);
    this.scrub.value = String(this.frame);
    const spans = this.text.children;
    for (let k = 0; k < spans.length; k += 1) {
      const state = stateAt(this.trip, k, this.frame);
      if (state !== this.states[k]) this.#paint(spans[k], k, state);
      this.states[k] = state;
    }
    this.text.classList.toggle("done", this.frame === this.last);
    const told = this.#told();
    this.scrub.setAttribute("aria-valuetext", told);
    this.says.textContent = told;
  }

  #paint(span, k, state) {
    const was = this.tokens[k].text;
    const now = state === "changed" ? this.trip.rebuilt[k] : was;
    span.textContent = shown(now) || "\u2205";
    span.className = state;
    span.title = state === "changed" ? `was ${named(was)}` : "";
    if (state === "changed") span.dataset.was = shown(was);
    else delete span.dataset.was;
    if (state === "hole") span.setAttribute("aria-label", "masked");
    else span.removeAttribute("aria-label");
  }

  #told() {
    const holes = this.trip.masked.filter(Boolean).length;
    if (this.frame === ORIGINAL) return "The answer as it was written.";
    if (this.frame === MASKED) return `${plural(holes, "token")} masked again, of ${this.tokens.length}.`;
    const count = (wanted) => this.states.filter((state) => state === wanted).length;
    const lost = count("changed");
    if (this.frame === this.last) {
      return `Rebuilt: ${plural(count("held"), "token")} came back, ${lost} did not${lost ? "; what was lost is struck out" : ""}.`;
    }
    return `Step ${this.frame - MASKED} of ${this.last - MASKED}: ${plural(count("hole"), "token")} still masked, ${lost} changed.`;
  }

  play() {
    if (!this.trips.length) return;
    if (this.frame === this.last) this.seek(ORIGINAL);
    this.toggle.textContent = "Pause";
    this.timer = setInterval(() => {
      if (this.frame === this.last) this.pause();
      else this.seek(this.frame + 1);
    }, PACE);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = 0;
    this.toggle.textContent = "Play";
  }
}
