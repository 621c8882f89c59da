// Who changed what, and who read a payload.
import { outbox as api } from "../api.js";
import { h, prose, replace } from "../dom.js";
import { text, time } from "../format.js";
import { empty, eventLink, failure, heading, table } from "../parts.js";

export function audit({ route }) {
  const abort = new AbortController();
  const list = h("div", { class: "list" }, h("p", { class: "muted" }, "Reading…"));
  const columns = [
    { label: "When", class: "main", cell: (act) => time(act.at) },
    { label: "Who", cell: (act) => text(act.by) },
    { label: "What", cell: (act) => text(act.action) },
    { label: "Record", class: "id-cell", cell: (act) => (act.record ? eventLink(route.outbox, act.record) : text(null)) },
    { label: "Detail", class: "error", cell: (act) => (act.detail ? prose(act.detail) : text(null)) },
  ];

  async function load() {
    try {
      const acts = await api(route.outbox).audit(abort.signal);
      replace(list, acts.length ? table(`Audit of ${route.outbox}`, columns, acts) : empty("Nothing was changed yet.", "Resends, discards, replays and payloads that were read are listed here."));
    } catch (error) {
      if (error.name !== "AbortError") replace(list, failure(error));
    }
  }

  load();
  return {
    title: `Audit of ${route.outbox}`,
    element: h(
      "div",
      {},
      heading("Audit", route.outbox, h("button", { type: "button", class: "quiet", onclick: () => load() }, "Read again")),
      h("p", { class: "lead" }, "The latest 200 changes, whoever made them, and every payload that was read."),
      list,
    ),
    refresh() {},
    close: () => abort.abort(),
  };
}
