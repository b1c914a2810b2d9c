// A question as a link: all of it stands behind the #, which browsers send to nobody.

const PREFIX = "#ask=";

const coded = (text) => {
  const bytes = new TextEncoder().encode(text);
  const signs = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(signs).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
};

const decoded = (text) => {
  const signs = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(signs, (sign) => sign.charCodeAt(0)));
};

const isObject = (value) => value !== null && typeof value === "object";
const isText = (value) => value === undefined || typeof value === "string";
const isNumber = (value) => value === undefined || Number.isFinite(value);

// Only what a form can hold: strings and numbers, by the names of a request.
function isQuestion(body) {
  if (!isObject(body) || !isObject(body.remask)) return false;
  const texts = [body.prompt, body.answer, body.task, body.level, body.kind, body.remask.scorer];
  return texts.every(isText) && [body.seed, body.temperature, body.max_tokens].every(isNumber)
    && (typeof body.prompt === "string" || typeof body.task === "string");
}

// The address of this page with a question in it.
export const linkTo = (mode, body) => `${location.origin}${location.pathname}${PREFIX}${coded(JSON.stringify([mode, body]))}`;

// The question of an address: {mode, body}, null where it has none, undefined where it cannot be read.
export function linked(hash) {
  if (!hash.startsWith(PREFIX)) return null;
  try {
    const [mode, body] = JSON.parse(decoded(hash.slice(PREFIX.length)));
    return (mode === "solve" || mode === "verify") && isQuestion(body) ? { mode, body } : undefined;
  } catch {
    return undefined;
  }
}
