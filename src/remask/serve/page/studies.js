// Studies from disk, opened or dropped, for the threshold slider.
import { byId } from "./dom.js";
import { Slider } from "./slider.js";
import { StudyError, read } from "./study.js";
import { shown } from "./tokens.js";

async function open(slider, files) {
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

export function openStudies() {
  const slider = new Slider(byId("slider"));
  const drop = byId("study");
  byId("study-file").addEventListener("change", (event) => open(slider, event.target.files));
  drop.addEventListener("dragover", (event) => event.preventDefault());
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    open(slider, event.dataTransfer.files);
  });
}
