// Elements and words for them. Whatever a model wrote goes in as text, never as markup.

export const byId = (id) => document.getElementById(id);

export function make(tag, { text, name, title, ...attributes } = {}, ...children) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  if (title) element.title = title;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function button(text, act, name = "") {
  const element = make("button", { text, name, type: "button" });
  element.addEventListener("click", act);
  return element;
}

export function option(text, value) {
  return make("option", { text, value });
}

export function number(value, digits = 3) {
  return value === null || value === undefined ? "none" : value.toFixed(digits);
}

export const whole = (value) => value.toLocaleString("en");

export const percent = (share, digits = 0) =>
  (share === null || Number.isNaN(share) ? "none" : `${(100 * share).toFixed(digits)} %`);

export const plural = (count, word, ending = "s") => `${whole(count)} ${word}${count === 1 ? "" : ending}`;

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
