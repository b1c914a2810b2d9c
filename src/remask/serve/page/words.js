// What the server's names stand for, in words; a name that is not known here stays as it is.
import { shown } from "./tokens.js";

const SCORERS = {
  roundtrips: "round trips", self_evaluation: "self-evaluation", editor: "editor's agreement", dise: "DiSE",
  perplexity: "masked likelihood", verifier_at_hand: "verifier, of an answer at hand",
};
const TASKS = { wordmath: "word problems", countdown: "countdown numbers", choice: "multiple choice", pycode: "Python functions" };
const KINDS = { number: "a number", choice: "a choice", code: "code", text: "text" };
// The name of a probe says all of it: what is hidden, how much of it, and in how many passes.
const PROBES = {
  generation: () => "when it was written",
  critical: () => "critical tokens",
  halves: (share, passes) => `critical tokens by halves, ${passes} passes`,
  random: (share, passes) => `${share} % hidden at random, ${passes} passes`,
  stratified: (share, passes) => `${share} % hidden in turn, ${passes} passes`,
  forced: (share, passes) => `all hidden, shown in ${passes} steps`,
  visible: () => "nothing hidden",
  suffix: () => "each block and what follows",
};

const known = (table, name) => (Object.hasOwn(table, name) ? table[name] : null);

export const scorerWord = (name) => known(SCORERS, name) ?? shown(name);
export const taskWord = (name) => known(TASKS, name) ?? shown(name);
export const kindWord = (name) => known(KINDS, name) ?? taskWord(name);

// A metric of round trips, a probe, or what else a score is made of.
export function metricWord(name) {
  const [, pattern, share, passes] = /^([a-z]+)(?:(\d+)x)?(\d+)?$/.exec(name) ?? [];
  const probe = pattern && known(PROBES, pattern);
  return probe ? probe(share, passes) : (known(SCORERS, name) ?? shown(name).replaceAll("_", " "));
}

export const thresholdWord = ({ threshold, threshold_source: source }) =>
  (threshold === null ? "none" : source ? `${threshold}, ${source}` : String(threshold));

// A stage of a verifier is named after its probes.
export const stageWord = (name) => name.split("+").map(metricWord).join(" and ");

// What a fitted verifier says of its score: the stage that settled it, or why it is no probability.
export const fitFacts = ({ score, stage, reason }) =>
  stage ? [["settled at", `stage ${stageWord(stage)}`]] : score !== null && reason ? [["no probability", shown(reason)]] : [];
