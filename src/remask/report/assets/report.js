// The list of answers and the threshold of a report. What the records hold is set as text alone.
import { bar } from "./bars.js";
import { byId, make, number, option, scoreText, whole } from "./dom.js";
import { Slider } from "./slider.js";
import { StudyError, fromReport } from "./study.js";
import { paint } from "./tokens.js";

const SIZE = 20; // answers on a page
const data = JSON.parse(document.getElementById("data").textContent);
const answers = data.answers.map((values, place) => {
  const answer = { place };
  data.fields.forEach((field, k) => { answer[field] = values[k]; });
  return answer;
});
const kinds = Object.keys(data.kinds);
const filters = [
  { name: "all", says: "", keep: () => true },
  { name: "right", says: "The final answer is right.", keep: (a) => a.right },
  { name: "wrong", says: "The final answer is wrong.", keep: (a) => !a.right },
  ...kinds.map((name, k) => ({ name, says: data.kinds[name], keep: (a) => a.kinds.includes(k) })),
];
const LAST = Infinity; // answers without a number come after the others
const orders = {
  low: (a) => a.score ?? LAST,
  high: (a) => -(a.score ?? -LAST),
  sure: (a) => -(a.confidence ?? -LAST),
  gap: (a) => (a.score === null || a.confidence === null ? LAST : a.score - a.confidence),
};
const state = { filter: 0, file: "", text: "", order: "", doubt: null, page: 0, only: null };

function haystack(answer) {
  answer.hay ??= [
    answer.id, data.prompts[answer.prompt], text(answer), answer.answer ?? "", answer.gold,
  ].join("\n").toLowerCase();
  return answer.hay;
}

const text = (answer) => answer.runs.filter((_, k) => k % 2 === 0).join("");

function chosen() {
  if (state.only !== null) return answers.filter((a) => a.place === state.only);
  const wanted = state.text.trim().toLowerCase();
  const kept = answers.filter((a) =>
    filters[state.filter].keep(a)
    && (state.file === "" || a.file === Number(state.file))
    && (state.doubt === null || a.doubts.includes(state.doubt))
    && (wanted === "" || haystack(a).includes(wanted)));
  const key = orders[state.order];
  return key ? kept.sort((a, b) => key(a) - key(b) || a.place - b.place) : kept;
}

function painted(answer) {
  const box = make("p", { name: "text code" });
  box.dir = "auto";
  const tokens = [];
  for (let k = 0; k < answer.runs.length; k += 2) {
    const lost = answer.runs[k + 1];
    tokens.push({ text: answer.runs[k], drift: lost === null ? null : lost / 100, prob: null });
  }
  if (answer.painted) return paint(box, tokens);
  box.append(text(answer));
  return box;
}

function fact(term, value, { wide = false, score = null, mark = null, error = null } = {}) {
  const shown = make("dd", { text: value });
  if (score !== null) shown.append(bar(score, mark, error));
  return make("div", { name: wide ? "wide" : "" }, make("dt", { text: term }), shown);
}

function facts(answer) {
  const list = make("dl", { name: "facts" });
  const error = answer.stderr === null ? "" : ` \u00b1 ${number(answer.stderr)}`;
  const [written, verified] = answer.forwards;
  const long = (value) => value !== null && value.length > 40;
  list.append(
    fact("read as the answer", answer.answer ?? "none could be read", { wide: long(answer.answer) }),
    fact("gold answer", answer.gold, { wide: long(answer.gold) }),
    fact(answer.threshold === null ? "round trips" : `round trips, threshold ${answer.threshold}`, scoreText(answer.score, answer.threshold) + error, { score: answer.score, mark: answer.threshold, error: answer.stderr }),
    fact("verdict", answer.verdict),
    fact("confidence", number(answer.confidence), { score: answer.confidence }),
    fact("forward passes", `${whole(written)} to write${verified === null ? "" : `, ${whole(verified)} to verify`}`),
  );
  if (answer.reason) list.append(fact("grader says", answer.reason, { wide: long(answer.reason) }));
  return list;
}

function trips(answer) {
  const made = Math.max(0, ...answer.trips.map((values) => values.length));
  const head = make("tr", {}, make("th", { text: "metric" }));
  for (let k = 1; k <= made; k += 1) head.append(make("th", { text: `trip ${k}` }));
  const body = make("tbody");
  answer.trips.forEach((values, k) => {
    if (values.length === 0) return;
    const title = make("th", { text: data.metrics[k].replaceAll("_", " ") });
    title.scope = "row";
    body.append(make("tr", {}, title, ...values.map((value) => make("td", { text: number(value) }))));
  });
  head.querySelectorAll("th").forEach((cell) => { cell.scope = "col"; });
  const caption = make("caption", { text: "What each round trip brought back" });
  return make("div", { name: "scroll" }, make("table", {}, caption, make("thead", {}, head), body));
}

function folded(title, build) {
  const details = make("details", {}, make("summary", { text: title }));
  details.addEventListener("toggle", () => {
    if (details.open && details.children.length === 1) details.append(build());
  });
  return details;
}

function badges(answer) {
  const steps = answer.steps === false && answer.right ? ", by a wrong step" : "";
  const verdict = answer.right ? `right${steps}` : "wrong";
  return [
    make("span", { text: verdict, name: `badge ${answer.right ? "right" : "wrong"}` }),
    ...answer.kinds.map((k) => make("span", { text: kinds[k], name: "badge" })),
  ];
}

function more(answer) {
  const others = make("button", { text: "all samples of this problem", name: "plain" });
  others.type = "button";
  others.addEventListener("click", () => {
    reset();
    state.file = String(answer.file);
    state.text = answer.id;
    byId("search").value = answer.id;
    show();
    byId("count").scrollIntoView();
  });
  return make("div", { name: "more" }, make("span", { text: data.files[answer.file], name: "note" }), others);
}

function card(answer) {
  const link = make("a", { text: `${answer.id}, sample ${answer.number}` });
  link.href = `#answer-${answer.place}`;
  const box = make("article", { name: `answer ${answer.right ? "right" : "wrong"}` });
  box.append(make("header", {}, make("h3", {}, link), ...badges(answer)));
  const prompt = make("p", { text: data.prompts[answer.prompt], name: "text" });
  prompt.dir = "auto";
  box.append(make("h4", { text: "Prompt" }), prompt);
  const unpainted = answer.score !== null && !answer.painted;
  const title = unpainted ? "Answer (not painted: its tokens were not recorded)" : "Answer";
  box.append(make("h4", { text: title }), painted(answer), facts(answer));
  answer.doubts.forEach((k) => {
    box.append(make("p", { text: `Doubtful label: ${data.doubts[k]}.`, name: "doubts" }));
  });
  if (answer.trips.some((values) => values.length)) box.append(folded("Round trips, metric by metric", () => trips(answer)));
  box.append(more(answer));
  return box;
}

function show() {
  const found = chosen();
  const pages = Math.max(1, Math.ceil(found.length / SIZE));
  state.page = Math.min(Math.max(0, state.page), pages - 1);
  const start = state.page * SIZE;
  const cards = found.slice(start, start + SIZE).map(card);
  byId("list").replaceChildren(...cards);
  byId("place").textContent = `page ${whole(state.page + 1)} of ${whole(pages)}`;
  byId("pager").hidden = pages === 1;
  const few = state.only !== null ? "One answer. " : "";
  const which = state.doubt === null ? "" : ` Label in doubt: ${data.doubts[state.doubt]}.`;
  const count = byId("count");
  count.textContent = `${few}${whole(found.length)} of ${whole(answers.length)} answers.${which} `;
  if (state.only !== null || state.doubt !== null || state.text || state.file || state.filter) {
    const all = make("button", { text: "show all", name: "plain" });
    all.type = "button";
    all.addEventListener("click", () => { reset(); show(); });
    count.append(all);
  }
  document.querySelectorAll("#pager button").forEach((button) => {
    const back = ["first", "before"].includes(button.dataset.go);
    button.disabled = back ? state.page === 0 : state.page === pages - 1;
  });
  byId("meaning").textContent = filters[state.filter].says;
}

function reset() {
  Object.assign(state, { filter: 0, file: "", text: "", order: "", doubt: null, page: 0, only: null });
  byId("controls").reset();
  if (location.hash.startsWith("#answer-")) history.replaceState(null, "", "#answers");
}

function change(part) {
  Object.assign(state, { page: 0, only: null }, part);
  show();
}

function listen() {
  filters.forEach((filter, k) => {
    const radio = make("input");
    Object.assign(radio, { type: "radio", name: "kind", value: String(k) });
    radio.defaultChecked = k === 0;
    radio.addEventListener("change", () => change({ filter: k, doubt: null }));
    const count = answers.filter(filter.keep).length;
    radio.disabled = count === 0;
    byId("kinds").append(make("label", {}, radio, make("span", { text: `${filter.name} (${whole(count)})` })));
  });
  byId("file").append(option("all files", ""), ...data.files.map((name, k) => option(name, k)));
  byId("file").addEventListener("change", (event) => change({ file: event.target.value }));
  byId("order").addEventListener("change", (event) => change({ order: event.target.value }));
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  let waiting = 0;
  byId("search").addEventListener("input", (event) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => change({ text: event.target.value }), 150);
  });
  byId("pager").addEventListener("click", (event) => {
    const go = event.target.dataset.go;
    if (!go) return;
    state.page = { first: 0, before: state.page - 1, after: state.page + 1, last: LAST }[go];
    show();
    byId("count").scrollIntoView();
  });
  document.querySelectorAll("button[data-doubt]").forEach((button) => {
    button.addEventListener("click", () => {
      reset();
      state.doubt = Number(button.dataset.doubt);
      show();
      byId("count").scrollIntoView();
    });
  });
  addEventListener("hashchange", visit);
}

function visit() {
  const place = /^#answer-(\d+)$/.exec(location.hash);
  if (place && Number(place[1]) < answers.length) {
    state.only = Number(place[1]);
    show();
    byId("count").scrollIntoView();
  } else if (state.only !== null) {
    state.only = null;
    show();
  }
}

function slide() {
  try {
    const groups = fromReport(data).filter((group) => group.scores.length);
    if (groups.length) new Slider(byId("slider")).show(groups);
    else byId("slider").textContent = "No answer here has a score.";
  } catch (error) {
    if (!(error instanceof StudyError)) throw error;
    byId("slider").textContent = error.message;
  }
}

listen();
show();
slide();
visit();
