// The page: a problem is asked, candidates race or an answer is checked, the result is shown.
import { ApiError, model, newName, solve, verify } from "./api.js";
import { Answer } from "./answer.js";
import { Compare } from "./compare.js";
import { byId } from "./dom.js";
import { History, chosen } from "./history.js";
import { linked } from "./link.js";
import { Problem } from "./problem.js";
import { Race } from "./race.js";
import { openStudies } from "./studies.js";
import { shown } from "./tokens.js";
import { View } from "./view.js";
import { Waiting } from "./wait.js";

// What probes do with an answer; what round trips do stands on the page.
const PROBED = ["See an answer probed", "Hide the tokens of an answer again and read how likely the model finds them, without "
  + "rebuilding any. What it stands by stays likely. What it only happened to write does not."];
const REBUILT = [byId("title").textContent, byId("lead").textContent];
const UNREAD = "This link cannot be read, or is of another server; ask for it again, or type the question.";

const answer = new Answer();
const race = new Race((count) => show(count));
const view = new View();
const compare = new Compare();
const waiting = new Waiting(() => running?.abort());
const problem = new Problem({ ask: (mode, body) => run(mode, body), fail: lost, scored: introduce });
const past = new History((entry) => recall(entry), (entries) => compare.offer(entries));
let current = null; // what was asked and what came of it, as the history keeps it
let running = null;
let served = null;
let retry = start; // what failed last

function show(count) {
  const { asked, question, answers, mode } = current;
  if (!answers[count]) return;
  const title = mode === "verify" ? "Your answer" : `Candidate ${count + 1}`;
  answer.show(answers[count], { asked, question, title });
}

function fault(sentence) {
  byId("fault").hidden = sentence === "";
  byId("fault-says").textContent = shown(sentence);
  if (sentence) view.bring(byId("fault"), { focus: byId("fault"), says: "See what went wrong", block: "center" });
}

function hear(name, data) {
  if (name === "verification") current.answers[data.number] = data;
  if (name in hearers) hearers[name](data);
}

const hearers = {
  block: (data) => race.block(data),
  attempt: (data) => race.attempt(data),
  verification: (data) => race.verification(data),
  decision: (data) => {
    current.decision = data;
    race.decision(data);
  },
};

// The race and the answer that won it, or the answer alone where both do not fit into the window.
function bringResult() {
  const [title, top] = [byId("answer-title"), byId("race").getBoundingClientRect().top];
  const isRace = current.mode === "solve";
  const fits = byId("verdict").getBoundingClientRect().bottom - top < innerHeight;
  const [element, focus] = isRace && fits ? [byId("race"), byId("race-title")] : [answer.box, title];
  view.bring(element, { focus, says: "See the answer" });
}

async function ask(mode, body, signal, name) {
  if (mode === "solve") {
    await solve(body, signal, name, hear);
  } else {
    current.answers = [await verify(body, signal, name)];
    show(0);
  }
  past.add(current);
}

function begin(mode, body, again) {
  const asked = [`/v1/${mode}`, body];
  byId("race").hidden = mode === "verify";
  view.follow();
  if (again && current) {
    if (mode === "solve") race.again();
    return;
  }
  current = { time: Date.now(), mode, asked, question: byId("prompt").value, answers: [], decision: null };
  answer.box.hidden = true;
  const budget = body.remask.budget ?? served?.remask.defaults.budget;
  if (mode === "solve") race.begin(body.remask.threshold ?? null, budget);
}

async function run(mode, body, again = false) {
  running?.abort();
  const own = new AbortController();
  running = own;
  retry = () => run(mode, body, true);
  fault("");
  problem.busy(true);
  begin(mode, body, again);
  const name = newName();
  waiting.begin(mode === "verify" ? "Verifying." : "Solving.", name);
  view.bring(waiting.box, { block: mode === "verify" ? "nearest" : "start", focus: waiting.box });
  let error = null;
  await ask(mode, body, own.signal, name).catch((reason) => { error = reason; });
  if (own !== running) return; // something else was asked since
  problem.busy(false);
  waiting.end();
  if (error) failed(error);
  else bringResult();
}

// Shows an earlier question with its answers, as if they had just come.
function recall(entry) {
  running?.abort();
  running = null;
  problem.busy(false);
  waiting.end();
  fault("");
  current = entry;
  problem.restore(entry.mode, entry.asked[1]).catch(lost);
  byId("race").hidden = entry.mode === "verify";
  if (entry.mode === "solve") {
    race.begin(null, null);
    for (const found of entry.answers) {
      race.attempt(found);
      race.verification(found);
    }
    if (entry.decision) race.decision(entry.decision);
  }
  show(chosen(entry));
  view.follow();
  bringResult();
}

// What the server said, or that it is gone; anything else is a defect.
function told(error) {
  if (!(error instanceof ApiError)) throw error;
  fault(problem.worded(error.message));
}

// Something that was not asked by a person could not be had.
function lost(error) {
  retry = start;
  told(error);
}

function failed(error) {
  const isStopped = error.name === "AbortError";
  if (current.mode === "solve") race.stop(isStopped ? "Stopped. What had arrived is still shown." : "");
  if (!isStopped) told(error);
  else byId("go").focus({ preventScroll: true });
}

function introduce(scorer) {
  byId("how").hidden = scorer !== "roundtrips";
  const probed = scorer === "probe" || scorer === "verifier";
  [byId("title").textContent, byId("lead").textContent] = probed ? PROBED : REBUILT;
}

// A link brings its question; nothing is asked before the person says so.
async function follow() {
  const found = linked(location.hash);
  if (found === null) return;
  if (found === undefined || !problem.knows(found.body)) fault(UNREAD);
  else await problem.restore(found.mode, found.body);
}

async function start() {
  fault("");
  try {
    served = await model();
    byId("model").textContent = shown(served.id);
    await problem.serve(served);
    await follow();
  } catch (error) {
    lost(error);
  }
}

byId("retry").addEventListener("click", () => retry());
byId("by-hand-close").addEventListener("click", () => byId("by-hand").close());
addEventListener("hashchange", () => follow().catch(lost));
openStudies();
start();
