// Keys that wait behind a dead record, and the way out for each.
import { outbox as api } from "../api.js";
import { changeDead } from "../changes.js";
import { h, replace, say } from "../dom.js";
import { ago, count, text } from "../format.js";
import { live } from "../live.js";
import { empty, eventLink, failure, heading, notice, state, table, viewOnly } from "../parts.js";

export function parked({ route, me }) {
  const operate = me.role === "operate";
  const abort = new AbortController();
  const result = h("div", { class: "result", tabindex: -1 });
  const list = h("div", { class: "list" }, h("p", { class: "muted" }, "Reading…"));
  let seen = null;

  async function load() {
    try {
      show(await api(route.outbox).parked(abort.signal));
    } catch (error) {
      if (error.name !== "AbortError") replace(list, failure(error));
    }
  }

  function show(keys) {
    if (keys.length) return replace(list, table(`Parked keys of ${route.outbox}`, columns(), keys));
    replace(list, empty("No key is parked.", "With order per key, a dead record holds the later ones of its key until you resend or discard it."));
  }

  async function act(verb, { key, first }) {
    const about = `The head of key ${key}: ${first.event_type ?? "record"} ${first.id}.`;
    const done = await changeDead(verb, route.outbox, { ids: [first.id] }, 1, about);
    if (done === null) return;
    replace(result, notice("good", done));
    say(done);
    result.focus();
    await load();
  }

  const button = (verb, label, kind, row) =>
    h("button", { type: "button", class: kind, "aria-label": `${label} the head of key ${row.key}`, onclick: () => act(verb, row) }, `${label}…`);

  const columns = () => [
    { label: "Key", class: "main", cell: (row) => text(row.key) },
    { label: "Held by", class: "topic-cell", cell: (row) => eventLink(route.outbox, row.first.id, row.first.event_type ?? row.first.id) },
    { label: "State", cell: (row) => state(row.first.state) },
    { label: "Behind it", class: "number", cell: (row) => count(row.behind) },
    { label: "First error", class: "error", cell: (row) => text(row.first.error) },
    { label: "Emitted", class: "when", cell: (row) => ago(row.first.created_at) },
    ...(operate ? [{ label: "Head", class: "acts", cell: (row) => headButtons(row) }] : []),
  ];

  const headButtons = (row) =>
    row.first.state === "dead" ? [button("resend", "Resend", "", row), button("discard", "Discard", "danger", row)] : "";

  load();
  return {
    title: `Parked keys of ${route.outbox}`,
    element: h(
      "div",
      {},
      heading("Parked keys", route.outbox),
      h("p", { class: "lead" }, "Each waits behind its first record, so that nothing overtakes it. Other keys flow."),
      result,
      !operate && viewOnly("resending and discarding"),
      list,
    ),
    refresh() {
      const now = live.outbox(route.outbox);
      const as = `${now?.parked},${now?.dead}`;
      const inUse = list.contains(document.activeElement) || document.querySelector("dialog");
      if (seen !== null && as !== seen && !inUse) load();
      if (!inUse || seen === null) seen = as;
    },
    close: () => abort.abort(),
  };
}
