// Waiting for the server: how long it has been, and how many requests are before this one.
import { queue } from "./api.js";
import { byId, plural } from "./dom.js";

const TICK = 1000; // milliseconds between two looks at the clock
const LOOKS = 2; // of them, one asks the server for the place

// A time as people say it: "9 s", "2 min 5 s".
export function duration(seconds) {
  const whole = Math.floor(seconds);
  return whole < 60 ? `${whole} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

// Where a request stands, as a sentence; nothing where the server does not say.
export function place({ ahead, requests }) {
  if (ahead === null || ahead === undefined) return "";
  if (ahead > 0) return `${plural(ahead, "request")} ${ahead === 1 ? "is" : "are"} before yours.`;
  const others = requests - 1; // with it, or after it
  if (others < 1) return "The model is at work on it.";
  return `The model is at work on it; ${plural(others, "other request")} ${others === 1 ? "runs or waits" : "run or wait"}.`;
}

export class Waiting {
  constructor(stop) {
    this.box = byId("waiting");
    this.says = byId("waiting-says");
    this.clock = byId("waiting-clock");
    this.timer = 0;
    byId("stop").addEventListener("click", stop);
  }

  // `name` is the one that the request has in the queue.
  begin(what, name) {
    this.end();
    this.box.hidden = false;
    this.what = what;
    this.says.textContent = what;
    this.since = performance.now();
    this.#tick();
    let looks = 0;
    this.timer = setInterval(() => {
      this.#tick();
      looks += 1;
      if (looks % LOOKS === 1) this.#ask(name);
    }, TICK);
  }

  end() {
    clearInterval(this.timer);
    this.timer = 0;
    this.box.hidden = true;
  }

  #tick() {
    this.clock.textContent = duration((performance.now() - this.since) / 1000);
  }

  // The same words are not set again: they would be read aloud again.
  async #ask(name) {
    const { timer } = this;
    const found = await queue(name);
    if (timer !== this.timer || !this.timer || !found) return;
    const told = `${this.what} ${place(found)}`.trim();
    if (this.says.textContent !== told) this.says.textContent = told;
  }
}
