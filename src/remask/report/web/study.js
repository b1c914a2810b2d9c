// A study from disk: labelled answers of records or of a saved report, as groups to choose from.
//
// A group is {name, scores, answers, threshold}: the names of its scores, its answers {right, scores},
// one for each question, because several samples of one question are not independent, and the threshold
// of the round trips that a report judged them by, null where nobody did.

// Spelled so that they may stand inside a script themselves.
const OPENING = '\x3cscript type="application/json" id="data">';
const CLOSING = "\x3c/script>";

export class StudyError extends Error {}

const isScore = (value) => typeof value === "number" && Number.isFinite(value);

// The first answer to each question, in order.
function firsts(rows) {
  const found = new Map();
  for (const row of rows) {
    const before = found.get(row.id);
    if (before === undefined || row.number < before.number) found.set(row.id, row);
  }
  return [...found.values()];
}

function group(name, rows, threshold = null) {
  const answers = firsts(rows);
  const scores = [...new Set(answers.flatMap((row) => Object.keys(row.scores).filter((key) => isScore(row.scores[key]))))];
  scores.sort((a, b) => (b === "roundtrips") - (a === "roundtrips"));
  return { name, scores, answers, threshold };
}

function record(line, place, file) {
  let row;
  try {
    row = JSON.parse(line);
  } catch {
    throw new StudyError(`Line ${place} of ${file} is no JSON; open a file that remask collect wrote, or a report.`);
  }
  if (row?.kind !== undefined) return null; // a flaw that was injected is no answer of a model
  for (const field of ["id", "right", "scores"]) {
    if (row === null || typeof row !== "object" || !(field in row)) {
      throw new StudyError(`Line ${place} of ${file} has no ${field}; open a file that remask collect wrote, or a report.`);
    }
  }
  return { id: String(row.id), number: row.number ?? 0, right: Boolean(row.right), scores: row.scores ?? {} };
}

function fromRecords(text, file) {
  const lines = text.split("\n").map((line, k) => (line.trim() ? record(line, k + 1, file) : null));
  const rows = lines.filter((row) => row !== null);
  if (!rows.length) throw new StudyError(`${file} holds no records; collect some with remask collect.`);
  return [group(file, rows)];
}

// The groups of a report's data: one for each file of records in it. One that lists rare answers
// before frequent ones would tell the wrong shares.
export function fromReport(data) {
  if (!data.whole) {
    throw new StudyError("This report lists only some of its answers, rare kinds first, and these say nothing about a threshold; open the records themselves.");
  }
  const at = Object.fromEntries(data.fields.map((field, k) => [field, k]));
  return data.files.map((name, file) => {
    const rows = data.answers.filter((values) => values[at.file] === file);
    return group(name, rows.map((values) => ({
      id: values[at.id], number: values[at.number], right: Boolean(values[at.right]),
      scores: { roundtrips: values[at.score], confidence: values[at.confidence] },
    })), rows[0]?.[at.threshold] ?? null);
  });
}

export function read(text, file) {
  const start = text.indexOf(OPENING);
  if (start < 0) return fromRecords(text, file);
  const from = start + OPENING.length;
  return fromReport(JSON.parse(text.slice(from, text.indexOf(CLOSING, from))));
}
