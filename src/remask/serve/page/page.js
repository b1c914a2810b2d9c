// The page: a problem is asked, candidates race, the chosen one is shown, a study is loaded.
import { ApiError, model, solve, verify } from "./api.js";
import { Answer } from "./answer.js";
import { byId } from "./dom.js";
import { Problem } from "./problem.js";
import { Race } from "./race.js";
import { Slider } from "./slider.js";
import { StudyError, read } from "./study.js";
import { shown } from "./tokens.js";

// What probes do with an answer; what round trips do stands on the page.
const READ = "Hide the tokens of an answer again and read how likely the model finds them, without rebuilding any. "
  + "What it stands by stays likely. What it only happened to write does not.";

const answer = new Answer();
const race = new Race((count) => show(count));
const problem = new Problem((mode, body) => run(mode, body), (error) => told(error));
const slider = new Slider(byId("slider"));
let found = [];
let asked = null;
let command = null; // of the whole race, which is known when it is over
let running = null;
let served = null;

function show(count) {
  if (!found[count]) return;
  const title = asked[0] === "/v1/verify" ? "Your answer" : `Candidate ${count + 1}`;
  answer.show(found[count], { asked, title, command: command ?? found[count].command });
}

function fault(sentence) {
  byId("fault").hidden = sentence === "";
  byId("fault-says").textContent = shown(sentence);
}

function hear(name, data) {
  if (name === "verification") found[data.number] = data;
  if (name in hearers) hearers[name](data);
}

const hearers = {
  block: (data) => race.block(data),
  attempt: (data) => race.attempt(data),
  verification: (data) => race.verification(data),
  decision: (data) => {
    command = data.command;
    race.decision(data);
    answer.offer(command); // to the candidate that a person chose, too
  },
};

async function check(body, signal) {
  race.attempt({ number: 0, text: body.answer, extracted: null });
  const verified = await verify(body, signal);
  race.attempt({ number: 0, text: body.answer, extracted: verified.extracted });
  found[0] = verified;
  race.verification({ ...verified, number: 0 });
}

async function run(mode, body) {
  running?.abort();
  const own = new AbortController();
  running = own;
  found = [];
  command = null;
  asked = [`/v1/${mode}`, body];
  fault("");
  problem.busy(true);
  byId("race").hidden = false;
  answer.box.hidden = true;
  const budget = mode === "verify" ? null : body.remask.budget ?? served?.remask.defaults.budget;
  race.begin(body.remask.threshold ?? null, budget);
  try {
    await (mode === "verify" ? check(body, own.signal) : solve(body, own.signal, hear));
  } catch (error) {
    if (own === running) failed(error);
  } finally {
    if (own === running) problem.busy(false);
  }
}

// What the server said, or that it is gone; anything else is a defect.
function told(error) {
  if (!(error instanceof ApiError)) throw error;
  fault(error.message);
}

function failed(error) {
  if (error.name === "AbortError") {
    race.stop("Stopped. What had arrived is still shown.");
    return;
  }
  race.stop("");
  told(error);
}

function introduce(scorer) {
  byId("how").hidden = scorer !== "roundtrips";
  if (scorer !== "probe" && scorer !== "verifier") return;
  byId("title").textContent = "See an answer probed";
  byId("lead").textContent = READ;
}

async function start() {
  fault("");
  try {
    served = await model();
    byId("model").textContent = shown(served.id);
    introduce(served.remask.scorer);
    await problem.serve(served);
  } catch (error) {
    told(error);
  }
}

async function open(files) {
  const says = byId("study-says");
  try {
    const groups = [];
    for (const file of files) groups.push(...read(await file.text(), file.name));
    const usable = groups.filter((group) => group.scores.length);
    if (!usable.length) throw new StudyError("No answer there has a score; score them with remask score.");
    byId("slider").hidden = false;
    slider.show(usable);
    says.textContent = "";
  } catch (error) {
    if (!(error instanceof StudyError) && !(error instanceof SyntaxError)) throw error;
    says.textContent = shown(error.message);
  }
}

byId("retry").addEventListener("click", () => (asked ? run(asked[0].slice(4), asked[1]) : start()));
byId("stop").addEventListener("click", () => running?.abort());
byId("by-hand-close").addEventListener("click", () => byId("by-hand").close());
byId("study-file").addEventListener("change", (event) => open(event.target.files));
const drop = byId("study");
drop.addEventListener("dragover", (event) => event.preventDefault());
drop.addEventListener("drop", (event) => {
  event.preventDefault();
  open(event.dataTransfer.files);
});
start();
