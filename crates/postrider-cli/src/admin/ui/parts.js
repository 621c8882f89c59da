// What several pages show: notices, states, filters, tables of records.
import { h, prose } from "./dom.js";
import { ago, count, text } from "./format.js";
import { href, go } from "./route.js";

export const notice = (kind, ...content) => h("div", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : null }, content);

export const failure = (error) => notice("bad", prose(error.message));

export const empty = (title, ...advice) => h("div", { class: "empty" }, h("p", { class: "title" }, title), h("p", {}, advice));

export const chip = (kind, label) => h("span", { class: `chip ${kind}` }, label);

const STATES = { pending: "info", waiting: "warn", dead: "bad", published: "good" };
export const state = (name) => chip(STATES[name] ?? "", name);

export const viewOnly = (what) =>
  h("p", { class: "muted view-only" }, `Your token may look but not change: ${what} needs one with the role operate.`);

export function heading(title, name, ...rest) {
  return h("div", { class: "heading" }, h("h1", { tabindex: -1 }, title, name && h("span", { class: "of" }, name)), rest);
}

export const FILTERS = {
  id: { label: "Id", placeholder: "exact" },
  type: { label: "Type", placeholder: "order.placed" },
  key: { label: "Key", placeholder: "exact" },
  topic: { label: "Topic", placeholder: "exact" },
  error: { label: "Error contains", placeholder: "too large" },
  since: { label: "Newer than", placeholder: "2h, 3d or a time" },
  until: { label: "Older than", placeholder: "30m or a time" },
};

export function field(name, { label, placeholder, type = "text", hint, ...more }, value) {
  return h(
    "label",
    { class: "field" },
    h("span", {}, label),
    h("input", { name, type, placeholder, value, autocomplete: "off", spellcheck: "false", maxlength: 1024, ...more }),
    hint && h("small", {}, hint),
  );
}

// The filter lives in the address, so that a link keeps it and Back undoes it.
export function filterForm(route, names, ...before) {
  const submit = (event) => {
    event.preventDefault();
    const entries = [...new FormData(event.currentTarget)].map(([name, value]) => [name, value.trim()]);
    go(route.outbox, route.page, Object.fromEntries(entries.filter(([, value]) => value)));
  };
  const form = h(
    "form",
    { class: "filters", onsubmit: submit, "aria-label": "Filter" },
    before,
    names.map((name) => field(name, FILTERS[name], route.query[name])),
    h(
      "div",
      { class: "buttons" },
      h("button", { type: "submit", class: "primary" }, "Filter"),
      h("a", { class: "button", href: href(route.outbox, route.page) }, "Clear"),
    ),
  );
  // Folded on a phone, where it would push the list off the screen.
  const open = matchMedia("(min-width: 761px)").matches || Object.keys(route.query).length > 0;
  return h("details", { class: "folded", open }, h("summary", {}, "Filter"), form);
}

// The part of a route's query that the API takes as a filter.
export const filterOf = (route) =>
  Object.fromEntries(Object.entries(route.query).filter(([name]) => name in FILTERS));

export const eventLink = (outbox, id, ...label) =>
  h("a", { href: href(outbox, "records", {}, id), class: "event" }, label.length ? label : id);

// `columns` is [{label, class, cell: row => content}]. On a narrow screen a row becomes a card, with each label before its value.
export function table(caption, columns, rows) {
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: column.class }, column.label)))),
      h("tbody", {}, rows.map((row) => tableRow(columns, row))),
    ),
  );
}

const tableRow = (columns, row) =>
  h(
    "tr",
    {},
    columns.map((column) => {
      const label = typeof column.label === "string" ? column.label : column.card;
      return h("td", { class: column.class, "data-label": label }, column.cell(row));
    }),
  );

export const recordColumns = (outbox, { withState = false } = {}) => [
  {
    label: "Event",
    class: "main",
    cell: (r) => [
      eventLink(outbox, r.id, r.event_type ?? "(no type)"),
      h("span", { class: "id", title: r.id }, r.id),
    ],
  },
  ...(withState ? [{ label: "State", cell: (r) => state(r.state) }] : []),
  { label: "Key", class: "key-cell", cell: (r) => text(r.key) },
  { label: "Topic", class: "topic-cell", cell: (r) => text(r.topic) },
  { label: "Attempts", class: "number", cell: (r) => count(r.attempts) },
  { label: "Error", class: "error", cell: (r) => text(r.error) },
  { label: "Emitted", class: "when", cell: (r) => ago(r.created_at) },
];

// Forward by the server's cursor; back is the browser's.
export function pager(route, next) {
  if (!next && !route.query.from) return null;
  const { from, ...query } = route.query;
  return h(
    "nav",
    { class: "pager", "aria-label": "Pages of this list" },
    from && h("a", { class: "button", href: href(route.outbox, route.page, query) }, "First page"),
    next && h("a", { class: "button", href: href(route.outbox, route.page, { ...query, from: next }) }, "Next page"),
  );
}
