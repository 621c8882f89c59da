// Server-sent events by fetch, because an EventSource cannot send a token. Reconnects by itself, with growing pauses.
import { headers } from "./api.js";

const PAUSE_MIN_MS = 500;
const PAUSE_MAX_MS = 10_000;
// An overview comes every second: silence that long is a connection that is dead without knowing it.
const SILENCE_MAX_MS = 8_000;

// Calls `onOverview` with each overview and `onState` with {kind: "live" | "connecting" | "cut" | "refused", error, retryAt}.
export class Stream {
  #onOverview;
  #onState;
  #abort = new AbortController();
  #wake = () => {};
  #stopped = false;

  constructor(onOverview, onState) {
    this.#onOverview = onOverview;
    this.#onState = onState;
    addEventListener("online", () => this.retry());
  }

  retry() {
    this.#wake();
  }

  stop() {
    this.#stopped = true;
    this.#abort.abort();
    this.#wake();
  }

  async run() {
    let pause = PAUSE_MIN_MS;
    while (!this.#stopped) {
      this.#onState({ kind: "connecting" });
      const { received, error, refused } = await this.#connect();
      if (this.#stopped) return;
      if (refused) return this.#onState({ kind: "refused" });
      pause = received ? PAUSE_MIN_MS : Math.min(pause * 2, PAUSE_MAX_MS);
      const wait = pause * (0.75 + Math.random() / 2);
      this.#onState({ kind: "cut", error, retryAt: Date.now() + wait });
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, wait);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  }

  async #connect() {
    this.#abort = new AbortController();
    const { signal } = this.#abort;
    let received = false;
    let silence;
    const heard = () => {
      clearTimeout(silence);
      silence = setTimeout(() => this.#abort.abort(), SILENCE_MAX_MS);
    };
    try {
      heard();
      const response = await fetch("/api/events", { headers: headers(), signal, cache: "no-store" });
      if (response.status === 401) return { refused: true };
      if (!response.ok) {
        const answer = await response.json().catch(() => ({}));
        return { received, error: answer.error ?? `The relay answered ${response.status}.` };
      }
      for await (const data of events(response.body)) {
        heard();
        if (!received) this.#onState({ kind: "live" });
        received = true;
        this.#onOverview(data);
      }
      return { received, error: "The relay closed the stream." };
    } catch {
      return { received, error: `The relay at ${location.host} does not answer.` };
    } finally {
      clearTimeout(silence);
    }
  }
}

// The data of each `overview` event, as JSON. Comments and other events are passed over.
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      buffer += value;
      const blocks = buffer.split(/\r?\n\r?\n/);
      buffer = blocks.pop();
      for (const block of blocks) {
        const data = parse(block);
        if (data !== null) yield data;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function parse(block) {
  let event = "message";
  const data = [];
  for (const line of block.split(/\r?\n/)) {
    const [field, ...rest] = line.split(":");
    const value = rest.join(":").replace(/^ /, "");
    if (field === "event") event = value;
    if (field === "data") data.push(value);
  }
  return event === "overview" && data.length ? JSON.parse(data.join("\n")) : null;
}
