// What the stream said last, for every page.
import { Series } from "./series.js";
import { Stream } from "./stream.js";

export const live = {
  overview: null,
  state: { kind: "connecting" },
  series: new Map(),
  outbox: (name) => live.overview?.outboxes.find((outbox) => outbox.name === name) ?? null,
};

const watchers = new Set();
export const watch = (watcher) => {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
};
const tell = () => watchers.forEach((watcher) => watcher());

let stream = null;

export function start() {
  stream?.stop();
  stream = new Stream(take, (state) => {
    live.state = state;
    tell();
  });
  stream.run();
}

export function stop() {
  stream?.stop();
  stream = null;
  live.overview = null;
  live.series.clear();
}

export const retry = () => stream?.retry();

function take(overview) {
  const at = Date.parse(overview.at);
  for (const outbox of overview.outboxes) {
    if (!live.series.has(outbox.name)) live.series.set(outbox.name, new Series());
    live.series.get(outbox.name).add(at, outbox);
  }
  live.overview = overview;
  tell();
}
