// What to make of an answer, in words. The verdict itself is the server's: trust, undecided, doubt, unknown.
import { shown } from "./tokens.js";

export const tokensOf = (found) =>
  found.tokens.map(({ text, drift, logp, confidence, special }) => ({ text, drift, logp, special, prob: confidence }));

export const drifted = (found) => found.tokens.some((token) => token.drift > 0);

// A sentence; only what drifted is said to drift.
export function sentence(found) {
  if (found.score === null) return `Unknown: no score: ${shown(found.reason)}`;
  const trips = found.scorer === "roundtrips";
  switch (found.verdict) {
    case "trust": return !trips ? "Trust" : drifted(found) ? "Trust: most of it is reconstructed" : "Trust: all of it is reconstructed";
    case "undecided": return "Undecided: the score is within one standard error of the threshold";
    case "doubt": return !trips ? "Doubt" : drifted(found) ? "Doubt: it drifts" : "Doubt: nothing drifted, but the score is not above the threshold";
    default: return `Unknown: ${shown(found.threshold_reason)}`;
  }
}
