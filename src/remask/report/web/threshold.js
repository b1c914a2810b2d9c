// What a threshold does to labelled answers, and which thresholds come with a promise.
//
// Accepted is an answer that scores strictly above. A threshold is certified when, with the asked
// confidence, at most the asked share of what it accepts is wrong: exact binomial tails, tested
// from the strictest threshold down, the permitted error divided among a few fixed starts. The
// numbers are those of `remask certify`.

export const GRID = Array.from({ length: 100 }, (_, k) => (99 - k) / 100); // the strictest first
export const STARTS = [0.97, 0.9, 0.8, 0.65, 0.4];

let logFactorials = new Float64Array(1);

function logFactorial(n) {
  if (n >= logFactorials.length) {
    const longer = new Float64Array(2 * n + 1);
    for (let k = 2; k < longer.length; k += 1) longer[k] = longer[k - 1] + Math.log(k);
    logFactorials = longer;
  }
  return logFactorials[n];
}

function density(k, n, share) {
  const ways = logFactorial(n) - logFactorial(k) - logFactorial(n - k);
  return Math.exp(ways + k * Math.log(share) + (n - k) * Math.log1p(-share));
}

// P(Binomial(accepted, risk) <= wrong); 1 where nothing is accepted. The side that is small is summed.
export function binomialTail(wrong, accepted, risk) {
  if (wrong >= accepted) return 1;
  const odds = risk / (1 - risk);
  let sum = 0;
  if (wrong <= accepted * risk) {
    let term = density(wrong, accepted, risk);
    for (let k = wrong; k >= 0 && term > 0; k -= 1) {
      sum += term;
      term *= k / ((accepted - k + 1) * odds);
    }
    return Math.min(1, sum);
  }
  let term = density(wrong + 1, accepted, risk);
  for (let k = wrong + 1; k <= accepted && term > 0; k += 1) {
    sum += term;
    term *= ((accepted - k) / (k + 1)) * odds;
  }
  return Math.max(0, 1 - sum);
}

const share = (part, all) => (all === 0 ? null : part / all);

// How answers [{score, right}] fare at one threshold; a score of null is never accepted.
export function outcome(answers, threshold) {
  const accepted = answers.filter((answer) => answer.score !== null && answer.score > threshold);
  const right = accepted.filter((answer) => answer.right).length;
  const allRight = answers.filter((answer) => answer.right).length;
  return {
    threshold, n: answers.length, accepted: accepted.length, wrong: accepted.length - right,
    precision: share(right, accepted.length), coverage: share(accepted.length, answers.length),
    recall: share(right, allRight),
    f1: (2 * right) / Math.max(1, accepted.length + allRight),
  };
}

// The threshold, in hundredths, of the best F1; the lowest of equals.
export function bestF1(answers) {
  return [...GRID].reverse().map((threshold) => outcome(answers, threshold))
    .reduce((best, other) => (other.f1 > best.f1 ? other : best)).threshold;
}

// How many accepted answers, none of them wrong, a promise needs at least.
export function fewestAnswers(risk, confidence) {
  return Math.ceil(Math.log((1 - confidence) / STARTS.length) / Math.log1p(-risk) - 1e-9);
}

// Which thresholds of the grid are proved safe, and the one of them that accepts most, if any.
export function certify(answers, risk, confidence) {
  const fared = GRID.map((threshold) => outcome(answers, threshold));
  let level = 0;
  let passed = false;
  const proved = fared.map(({ threshold, wrong, accepted }) => {
    const own = STARTS.includes(threshold) ? (1 - confidence) / STARTS.length : 0;
    level = own + (passed ? level : 0);
    passed = binomialTail(wrong, accepted, risk) <= level;
    return passed;
  });
  const safe = fared.filter((_, k) => proved[k]);
  const best = safe.length ? safe.reduce((most, other) => (other.accepted > most.accepted ? other : most)) : null;
  return { proved, best };
}
