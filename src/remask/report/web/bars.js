// Bars: a value against a threshold, and the metrics of a score with their weights.
import { make, number, percent } from "./dom.js";

const clamp = (value) => Math.min(1, Math.max(0, value));

// A bar of 0 to 1; `mark` is where the threshold stands, `error` how far the value may be off. For
// eyes alone: the numbers are beside it.
export function bar(value, mark = null, error = null) {
  const fill = make("i");
  fill.style.width = `${100 * clamp(value ?? 0)}%`;
  const line = make("span", { name: "bar", "aria-hidden": "true" }, fill);
  if (error && value !== null) {
    const span = make("u");
    span.style.left = `${100 * clamp(value - error)}%`;
    span.style.right = `${100 * (1 - clamp(value + error))}%`;
    line.append(span);
  }
  if (mark !== null) {
    const at = make("b");
    at.style.left = `${100 * clamp(mark)}%`;
    line.append(at);
  }
  return line;
}

// Without any weight, as of a score that was fitted, nothing is known of what a metric adds.
function row(metric, total, weighed) {
  const counted = metric.weight > 0 && metric.value !== null;
  const weight = counted ? metric.weight / total : 0;
  const says = counted ? `\u00d7 ${percent(weight)}` : metric.value === null ? "absent" : weighed ? "not counted" : "";
  const value = make("td", { text: number(metric.value), name: "figure" });
  const drawn = make("td", { name: "wide" }, bar(metric.value));
  const name = make("th", { text: metric.name.replaceAll("_", " "), scope: "row" });
  const part = make("td", { text: counted ? number(weight * metric.value) : "", name: "figure" });
  return make("tr", { name: counted || !weighed ? "" : "idle" }, name, drawn, value, make("td", { text: says, name: "figure" }), part);
}

// What each metric adds to the score, side by side: the strip is as long as the score.
function strip(metrics, total, threshold) {
  const parts = make("span", { name: "strip", "aria-hidden": "true" });
  metrics.filter((metric) => metric.weight > 0 && metric.value !== null).forEach((metric) => {
    const part = make("i", { title: metric.name });
    part.style.width = `${100 * clamp((metric.weight / total) * metric.value)}%`;
    parts.append(part);
  });
  if (threshold !== null) {
    const at = make("b");
    at.style.left = `${100 * clamp(threshold)}%`;
    parts.append(at);
  }
  return parts;
}

// Metrics are [{name, value, weight}]; weights count among the metrics that have a value. `byTrip`:
// there were round trips, and values are means over them.
export function metricBars(box, metrics, score, threshold, byTrip) {
  const total = metrics.reduce((sum, m) => sum + (m.value === null ? 0 : m.weight), 0) || 1;
  const weighed = metrics.some((metric) => metric.weight > 0);
  const heads = ["metric", "", byTrip ? "mean over trips" : "value", "weight", "adds"];
  const head = make("tr", {}, ...heads.map((text) => make("th", { text, scope: "col" })));
  const body = make("tbody", {}, ...metrics.map((metric) => row(metric, total, weighed)));
  const caption = make("caption", { text: "What the score is made of", name: "unseen" });
  const foot = make("tr", {}, make("th", { text: "score", scope: "row" }),
    make("td", { name: "wide" }, weighed ? strip(metrics, total, threshold) : bar(score, threshold)),
    make("td", { text: "" }), make("td", { text: "" }), make("td", { text: number(score), name: "figure" }));
  box.replaceChildren(make("table", { name: "metrics" }, caption, make("thead", {}, head), body, make("tfoot", {}, foot)));
}
