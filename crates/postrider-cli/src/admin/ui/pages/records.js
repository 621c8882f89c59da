// Records in any state, filtered, page by page.
import { outbox as api } from "../api.js";
import { h, replace, setText } from "../dom.js";
import { records as number } from "../format.js";
import { empty, failure, filterForm, filterOf, heading, pager, recordColumns, table } from "../parts.js";

const FIELDS = ["id", "type", "key", "topic", "error", "since", "until"];
const STATES = ["", "pending", "waiting", "dead", "published"];

export function records({ route }) {
  const abort = new AbortController();
  const asked = { ...filterOf(route), state: route.query.state };
  const list = h("div", { class: "list" }, h("p", { class: "muted" }, "Reading…"));
  const total = h("span", { class: "muted meta", role: "status" });
  const count = h("button", { type: "button", class: "quiet", onclick: () => countAll() }, "Count all that match");

  const choose = h(
    "label",
    { class: "field" },
    h("span", {}, "State"),
    h("select", { name: "state" }, STATES.map((name) => h("option", { value: name, selected: name === (route.query.state ?? "") }, name || "any"))),
  );

  async function load() {
    try {
      const page = await api(route.outbox).records({ ...asked, from: route.query.from }, abort.signal);
      const columns = recordColumns(route.outbox, { withState: true });
      replace(
        list,
        page.records.length
          ? [table(`Records of ${route.outbox}`, columns, page.records), pager(route, page.next)]
          : empty("No record matches.", "Published records stay until cleanup deletes them; a wider filter may find more."),
      );
    } catch (error) {
      if (error.name !== "AbortError") replace(list, failure(error));
    }
  }

  // Of a large table that takes a while, so it is asked for.
  async function countAll() {
    setText(total, "Counting…");
    try {
      setText(total, number(await api(route.outbox).count(asked, abort.signal)));
    } catch (error) {
      if (error.name !== "AbortError") setText(total, error.message);
    }
  }

  load();
  return {
    title: `Records of ${route.outbox}`,
    element: h(
      "div",
      {},
      heading("Records", route.outbox, total, count, h("button", { type: "button", class: "quiet", onclick: () => load() }, "Read again")),
      filterForm(route, FIELDS, choose),
      list,
    ),
    refresh() {},
    close: () => abort.abort(),
  };
}
