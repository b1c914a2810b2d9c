// The drift heat map: one row for each round trip, one column for each token, and their drift below.
//
// A cell is plain where the trip left the token visible, filled where it came back, dark and
// hatched where another came back. Only the columns in sight are drawn, so that any length is smooth.
import { colour, make, plural } from "./dom.js";
import { driftTitle, named, shown, sureness } from "./tokens.js";

const ROW = 22; // pixels of a trip
const SIDE = 62; // pixels of the names on the left
const FOOT = 34; // pixels of the drift below
const LETTER = 6.7; // pixels of a letter of the tokens above
const LONGEST = 9; // letters of one that are shown
const NARROW = 14; // columns of long answers, wide enough for their tokens: the map is scrolled then
const WIDE = 24;
const VISIBLE = 0;
const HELD = 1;
const CHANGED = 2;

// What came back in place of token k, the most frequent first: [{text, count}].
export function instead(trips, k) {
  const counts = new Map();
  for (const trip of trips) {
    if (trip.masked[k] && trip.changed[k]) counts.set(trip.rebuilt[k], (counts.get(trip.rebuilt[k]) ?? 0) + 1);
  }
  return [...counts].map(([text, count]) => ({ text, count })).sort((a, b) => b.count - a.count);
}

// What stands above a column; blanks and line breaks are seen.
function label(token) {
  if (token.special) return "end";
  const text = shown(token.text).trim().replace(/\n/g, "\u21b5") || "\u2423";
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}\u2026` : text;
}

export class Heatmap {
  // `pointed` is called with (row, column) when a cell is hovered or reached by the arrow keys.
  constructor(box, pointed = () => {}) {
    this.pointed = pointed;
    this.canvas = make("canvas");
    this.spacer = make("div", { name: "spacer" }, this.canvas);
    this.scroller = make("div", {
      name: "heat", tabindex: "0", role: "application", "aria-roledescription": "heat map",
      "aria-label": "Drift heat map, round trips by tokens. Arrow keys move from cell to cell.",
    }, this.spacer);
    this.says = make("p", { name: "says", role: "status" });
    this.others = make("ul", { name: "instead" });
    box.replaceChildren(this.scroller, this.says, this.others);
    this.tokens = [];
    this.trips = [];
    this.at = null;
    this.waiting = false;
    this.#listen();
  }

  show(tokens, trips) {
    this.tokens = tokens;
    this.trips = trips;
    this.at = null;
    this.scroller.scrollLeft = 0;
    this.says.textContent = "Point at a cell, or move with the arrow keys, to see what came back there.";
    this.others.replaceChildren();
    this.#fit();
  }

  // The first trip that lost a token; the first of all where none did.
  losing(column) {
    return Math.max(0, this.trips.findIndex((trip) => trip.changed[column]));
  }

  point(row, column) {
    const rows = this.trips.length;
    const kept = [Math.min(Math.max(row, 0), rows - 1), Math.min(Math.max(column, 0), this.tokens.length - 1)];
    if (this.at && this.at[0] === kept[0] && this.at[1] === kept[1]) return;
    this.at = kept;
    this.#tell();
    this.draw();
    this.pointed(...kept);
  }

  // Draws before the next frame, once, however often it is called.
  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.#draw();
    });
  }

  #listen() {
    this.scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    this.canvas.addEventListener("pointermove", (event) => this.#hover(event));
    this.canvas.addEventListener("pointerdown", (event) => this.#hover(event));
    this.scroller.addEventListener("keydown", (event) => this.#key(event));
    this.scroller.addEventListener("focus", () => { if (!this.at && this.trips.length) this.point(0, 0); });
    new ResizeObserver(() => this.#fit()).observe(this.scroller);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  #hover(event) {
    const row = Math.floor((event.offsetY - this.top) / ROW);
    const column = Math.floor((event.offsetX - SIDE + this.scroller.scrollLeft) / this.width);
    if (event.offsetX >= SIDE && column < this.tokens.length && row >= 0) this.point(row, column);
  }

  #key(event) {
    const [row, column] = this.at ?? [0, 0];
    const page = Math.max(1, Math.floor((this.scroller.clientWidth - SIDE) / this.width));
    const moves = {
      ArrowLeft: [row, column - 1], ArrowRight: [row, column + 1], ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column], Home: [row, 0], End: [row, this.tokens.length - 1],
      PageUp: [row, column - page], PageDown: [row, column + page],
    };
    if (!moves[event.key] || !this.trips.length) return;
    event.preventDefault();
    this.point(...moves[event.key]);
    this.reveal(this.at[1]);
  }

  // Scrolls until a column is in sight.
  reveal(column) {
    const left = column * this.width;
    const room = this.scroller.clientWidth - SIDE - this.width;
    if (left < this.scroller.scrollLeft) this.scroller.scrollLeft = left;
    else if (left > this.scroller.scrollLeft + room) this.scroller.scrollLeft = left - room;
  }

  #fit() {
    const room = Math.max(1, this.scroller.clientWidth - SIDE);
    this.width = Math.min(WIDE, Math.max(NARROW, room / Math.max(1, this.tokens.length)));
    const letters = this.tokens.reduce((most, token) => Math.max(most, label(token).length), 1);
    this.top = 12 + LETTER * letters;
    const height = this.top + this.trips.length * ROW + FOOT;
    this.spacer.style.width = `${SIDE + this.tokens.length * this.width}px`;
    this.spacer.style.minWidth = "100%";
    const dense = window.devicePixelRatio || 1;
    this.canvas.style.width = `${this.scroller.clientWidth}px`;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(this.scroller.clientWidth * dense);
    this.canvas.height = Math.round(height * dense);
    this.draw();
  }

  #draw() {
    const pen = this.canvas.getContext("2d");
    const dense = window.devicePixelRatio || 1;
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, this.canvas.width, this.canvas.height);
    if (!this.trips.length) return;
    this.inks = Object.fromEntries(["held", "hatch", "d4", "edge", "ink", "soft", "line", "paper"].map((name) => [name, colour(`--${name}`)]));
    const from = Math.floor(this.scroller.scrollLeft / this.width);
    const until = Math.min(this.tokens.length, from + Math.ceil((this.scroller.clientWidth - SIDE) / this.width) + 1);
    pen.save();
    pen.beginPath();
    pen.rect(SIDE, 0, this.scroller.clientWidth - SIDE, this.canvas.height);
    pen.clip();
    pen.translate(SIDE - this.scroller.scrollLeft, 0);
    for (let k = from; k < until; k += 1) this.#column(pen, k);
    this.#cursor(pen);
    pen.restore();
    this.#sides(pen);
  }

  state(row, k) {
    const trip = this.trips[row];
    if (!trip.masked[k]) return VISIBLE;
    return trip.changed[k] ? CHANGED : HELD;
  }

  #column(pen, k) {
    const x = k * this.width;
    const inner = this.width - 1.5;
    for (let row = 0; row < this.trips.length; row += 1) {
      this.#cell(pen, x, this.top + row * ROW + 1.5, inner, this.state(row, k));
    }
    const { drift } = this.tokens[k];
    const below = this.top + this.trips.length * ROW + 6;
    pen.fillStyle = drift ? this.inks.edge : this.inks.line;
    const tall = Math.max(1, 22 * (drift ?? 0));
    pen.fillRect(x, below + 22 - tall, inner, tall);
    this.#label(pen, x, k);
  }

  #cell(pen, x, y, width, state) {
    const height = ROW - 3;
    if (state === VISIBLE) {
      pen.fillStyle = this.inks.line;
      pen.fillRect(x + width / 2 - 1, y + height / 2 - 1, Math.min(2, width), 2);
      return;
    }
    pen.fillStyle = state === HELD ? this.inks.held : this.inks.d4;
    pen.fillRect(x, y, width, height);
    if (state !== CHANGED) return;
    pen.strokeStyle = this.inks.hatch;
    pen.lineWidth = 1;
    pen.beginPath();
    for (let low = 5; low < height; low += 6) {
      pen.moveTo(x, y + low);
      pen.lineTo(x + width, y + low - Math.min(5, width));
    }
    pen.stroke();
  }

  #label(pen, x, k) {
    pen.save();
    pen.translate(x + this.width / 2 + 4, this.top - 5);
    pen.rotate(-Math.PI / 2);
    pen.fillStyle = this.at && this.at[1] === k ? this.inks.ink : this.inks.soft;
    pen.font = "11px ui-monospace, 'SF Mono', Menlo, Consolas, 'DejaVu Sans Mono', monospace";
    pen.fillText(label(this.tokens[k]), 0, 0);
    pen.restore();
  }

  #cursor(pen) {
    if (!this.at) return;
    const [row, k] = this.at;
    pen.strokeStyle = this.inks.ink;
    pen.lineWidth = 2;
    pen.strokeRect(k * this.width - 1, this.top + row * ROW, this.width, ROW);
  }

  #sides(pen) {
    pen.font = "12px system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
    pen.fillStyle = this.inks.soft;
    this.trips.forEach((_, row) => pen.fillText(`trip ${row + 1}`, 2, this.top + row * ROW + 15));
    pen.fillText("drift", 2, this.top + this.trips.length * ROW + 22);
  }

  #tell() {
    const [row, k] = this.at;
    const token = this.tokens[k];
    const trip = this.trips[row];
    const what = {
      [VISIBLE]: "stayed visible",
      [HELD]: "was masked and came back",
      [CHANGED]: `was masked, and ${named(trip.rebuilt[k])} came back`,
    }[this.state(row, k)];
    this.says.textContent = `Trip ${row + 1}, token ${k + 1} ${named(token.text)} ${what}. Over all trips: ${driftTitle(token.drift)}${sureness(token)}.`;
    const others = instead(this.trips, k).slice(0, 8);
    this.others.replaceChildren(...others.map(({ text, count }) =>
      make("li", {}, make("code", { text: named(text) }), ` instead, ${plural(count, "time")}`)));
  }
}
