// A result as a file: the document as it came, or a page of Markdown to read.
import { number, plural, scoreText } from "./dom.js";
import { shown } from "./tokens.js";
import { fitFacts, thresholdWord } from "./words.js";

// A text as a block that nothing in it can close.
function fenced(text) {
  const runs = text.match(/`+/g) ?? [];
  const fence = "`".repeat(Math.max(3, ...runs.map((run) => run.length + 1)));
  return `${fence}text\n${shown(text)}\n${fence}`;
}

const cell = (text) => shown(String(text)).replace(/[\n\t]/g, " ").replace(/[\\|<`*_[\]]/g, "\\$&");

function table(heads, rows) {
  const line = (cells) => `| ${cells.map(cell).join(" | ")} |`;
  return [line(heads), `|${"---|".repeat(heads.length)}`, ...rows.map(line)].join("\n");
}

// The tokens that did not always come back, the worst first.
function drifting(found) {
  return found.tokens.filter((token) => token.drift > 0).sort((a, b) => b.drift - a.drift)
    .map((token) => [JSON.stringify(token.text), `${Math.round(100 * token.drift)} %`]);
}

export function markdown(found, question) {
  const { score, stderr, threshold, verdict, scorer, model, extracted } = found;
  const facts = [
    ["verdict", verdict],
    ["score", score === null ? `none: ${found.reason}` : scoreText(score, threshold) + (stderr === null ? "" : ` \u00b1 ${number(stderr)}`)],
    ["threshold", thresholdWord(found)], ["result", extracted ?? "none could be read"],
    ["scorer", scorer], ...fitFacts(found), ["model", model], ["cost of verifying", plural(found.cost.forwards, "forward pass", "es")],
  ];
  const lost = drifting(found);
  const settings = Object.entries(found.settings).map(([name, value]) => [name, value ?? "none"]);
  const parts = [
    "# An answer, verified by remask", "## Question", fenced(question), "## Answer", fenced(found.text),
    "## Verdict", table(["", ""], facts),
    "## What the score is made of",
    table(["metric", "value", "weight"], Object.entries(found.metrics).map(([name, { value, weight }]) => [name, number(value), number(weight)])),
    ...(lost.length ? ["## Tokens that drifted", table(["token", "lost in so many of the trips that masked it"], lost)] : []),
    ...(settings.length ? ["## Settings", table(["setting", "value"], settings)] : []),
  ];
  return `${parts.join("\n\n")}\n`;
}

// Hands a text to the person as a file.
export function save(text, name, type) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
