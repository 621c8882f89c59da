// Resending and discarding dead records, and replaying: what the question says before, and what was done after.
import { outbox } from "./api.js";
import { ask } from "./dialog.js";
import { h } from "./dom.js";
import { count, records } from "./format.js";

const VERBS = {
  resend: {
    name: "Resend",
    done: "resent",
    explain: (n) =>
      `${n === 1 ? "It becomes" : "They become"} pending again with attempts counted from 0, and ${n === 1 ? "is" : "are"} published in the outbox's order. Keys parked behind go on after that.`,
  },
  discard: {
    name: "Discard",
    done: "discarded",
    danger: true,
    explain: (n) =>
      `${n === 1 ? "It is" : "They are"} deleted from the table and will never be published. Keys parked behind go on without ${n === 1 ? "it" : "them"}. This cannot be undone.`,
  },
};

// `which` is {ids} or {filter}; `about` says in words which ones these are. Resolves to a sentence about what was done, or null.
export async function changeDead(verb, name, which, expected, about) {
  const { name: word, done, danger, explain } = VERBS[verb];
  const changed = await ask({
    danger,
    count: expected,
    title: (n) => `${word} ${records(n, "dead")} of ${name}?`,
    explain: (n) => [about && h("p", { class: "about" }, about), h("p", {}, explain(n))],
    verb: (n) => `${word} ${records(n)}`,
    run: (n) => outbox(name).change(verb, { ...which, expect: n }),
  });
  return changed === null ? null : `${records(changed)} of ${name} ${done}.`;
}

// `what` is the body of POST …/replay. Resolves to the replay, or null.
export const startReplay = (name, what, expected, about) =>
  ask({
    count: expected,
    title: (n) => `Replay ${records(n, "published")} of ${name}?`,
    explain: () => [
      about && h("p", { class: "about" }, about),
      h(
        "p",
        {},
        what.to_topic ? `They are sent once more, to ${what.to_topic}` : "They are sent once more, to their topics",
        what.rate ? `, at most ${count(what.rate)} a second` : "",
        ". Each carries a header that marks it as replayed; consumers without an inbox will apply it again.",
      ),
    ],
    verb: (n) => `Replay ${records(n)}`,
    run: () => outbox(name).startReplay(what),
  });
