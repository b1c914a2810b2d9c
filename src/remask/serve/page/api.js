// The server: its routes, its events, and its faults as sentences.

const GONE = "The server does not answer. Is it still running? Start it with \u201cremask serve\u201d and try again.";
const BROKEN = "The server stopped in the middle of its answer. What had arrived is still shown; try again when it runs.";

export class ApiError extends Error {}

async function told(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The server answered ${response.status}, and did not say why.`;
  }
}

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    throw error.name === "AbortError" ? error : new ApiError(GONE);
  }
  if (response.ok) return response;
  throw new ApiError(await told(response));
}

// `name` is what the request is called in the queue.
function post(path, body, signal, name) {
  const headers = { "Content-Type": "application/json", "X-Client-Request-Id": name };
  return ask(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

async function parsed(response) {
  try {
    return await response.json();
  } catch (error) {
    throw error.name === "AbortError" ? error : new ApiError(BROKEN);
  }
}

export const model = async () => (await parsed(await ask("/v1/models"))).data[0];

// Problems to try; without a `seed` those that the server shows first.
export async function examples(task, level, count, seed = null) {
  const query = new URLSearchParams({ task, level, count, ...(seed === null ? {} : { seed }) });
  return (await parsed(await ask(`/v1/examples?${query}`))).data;
}

// A name for a request, which no other has.
export const newName = () => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

// How many requests run or wait, and how many are before the named one; null where nobody says.
export async function queue(name) {
  try {
    const response = await fetch(`/v1/queue?${new URLSearchParams({ name })}`);
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}

export const verify = async (body, signal, name) => parsed(await post("/v1/verify", body, signal, name));

// Yields [name, data] of each event of a stream.
async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      throw error.name === "AbortError" ? error : new ApiError(BROKEN);
    }
    if (part.done) return;
    const whole = (rest + part.value).replaceAll("\r\n", "\n").split("\n\n");
    rest = whole.pop();
    for (const event of whole) {
      const lines = event.split("\n");
      const of = (field) => lines.filter((line) => line.startsWith(`${field}:`)).map((line) => line.slice(field.length + 1).trimStart());
      const data = of("data").join("\n");
      if (data) yield [of("event")[0], JSON.parse(data)];
    }
  }
}

// Asks for a solution; `hear` gets every event, the decision last.
export async function solve(body, signal, name, hear) {
  const response = await post("/v1/solve", body, signal, name);
  for await (const [name, data] of events(response)) {
    if (name === "error") throw new ApiError(data.error.message);
    hear(name, data);
    if (name === "decision") return;
  }
  throw new ApiError(BROKEN);
}
