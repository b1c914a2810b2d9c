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

// A score with three digits, or with as many as show on which side of the threshold it is.
export function scoreText(value, threshold) {
  for (let digits = 3; value !== null && threshold !== null && digits < 10; digits += 1) {
    const text = value.toFixed(digits);
    if (Number(text) !== threshold && Number(text) > threshold === value > threshold) return text;
  }
  return number(value);
}

export const whole = (value) => value.toLocaleString("en");

export const percent = (share, digits = 0) =>
  (share === null || Number.isNaN(share) ? "none" : `${(100 * share).toFixed(digits)} %`);

export const plural = (count, word, ending = "s") => `${whole(count)} ${word}${count === 1 ? "" : ending}`;

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
