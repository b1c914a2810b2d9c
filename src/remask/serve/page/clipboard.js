// Copies a result as JSON, or the request as a curl line.
import { byId } from "./dom.js";
import { shown } from "./tokens.js";

const ascii = (text) =>
  text.replace(/[\u007f-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);

// A word that a shell takes as it is, whatever it holds: what cannot be seen is spelled out.
export function quoted(text) {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  if (shown(text) === text) return `'${text.replaceAll("'", "'\\''")}'`;
  const spelled = text.replace(/[\\']/g, "\\$&").replace(/\n/g, "\\n").replace(/\t/g, "\\t");
  return `$'${shown(spelled)}'`;
}

export function curl(path, body) {
  const data = quoted(ascii(JSON.stringify(body)));
  return `curl -sN ${location.origin}${path} -H 'Content-Type: application/json' --data-raw ${data}`;
}

export const json = (value) => JSON.stringify(value, null, 2);

// Copies a text; where the browser forbids it, shows it to be copied by hand.
export async function copy(text, says) {
  try {
    await navigator.clipboard.writeText(text);
    says.textContent = "Copied.";
  } catch {
    const box = byId("by-hand");
    box.querySelector("textarea").value = text;
    box.showModal();
    box.querySelector("textarea").select();
    says.textContent = "The browser keeps the clipboard to itself; copy the text by hand.";
  }
}
