// What happens comes into view, unless the person has turned to something else meanwhile.
import { byId } from "./dom.js";

const calm = matchMedia("(prefers-reduced-motion: reduce)");
const TURNS = ["wheel", "touchmove", "pointerdown", "keydown"];

function scroll(element, block) {
  element.scrollIntoView({ behavior: calm.matches ? "instant" : "smooth", block });
}

function inSight(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}

export class View {
  constructor() {
    this.follows = false;
    this.pill = byId("there");
    for (const name of TURNS) {
      addEventListener(name, (event) => { if (!this.pill.contains(event.target)) this.follows = false; }, { passive: true, capture: true });
    }
    addEventListener("scroll", () => { if (this.aim && inSight(this.aim)) this.#clear(); }, { passive: true });
    this.pill.addEventListener("click", () => this.#go(this.aim, this.focus, "start"));
  }

  // From now on what happens is brought into view.
  follow() {
    this.follows = true;
    this.#clear();
  }

  // Brings an element into view and the focus to `focus`; a person who is busy elsewhere gets a
  // button that does it.
  bring(element, { focus = null, says = "", block = "start" } = {}) {
    if (this.follows) {
      this.#go(element, focus, block);
      return;
    }
    // What had the focus may be gone.
    if (document.activeElement === document.body) focus?.focus({ preventScroll: true });
    if (!says || inSight(element)) return;
    [this.aim, this.focus] = [element, focus];
    this.pill.textContent = says;
    this.pill.hidden = false;
  }

  #go(element, focus, block) {
    this.#clear();
    scroll(element, block);
    focus?.focus({ preventScroll: true });
  }

  #clear() {
    this.aim = null;
    this.pill.hidden = true;
  }
}
