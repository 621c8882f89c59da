// Which dead records a change is about: some of the page, a key's run, or all that match the filter.
import { h, replace, setText } from "./dom.js";
import { count, records } from "./format.js";

// `onChange()` is called when the selection changed. A filter is kept with the number that matched when it was chosen.
export class Selection {
  #rows = new Map();
  #ids = new Set();
  #filter = null;
  #all = h("input", { type: "checkbox", "aria-label": "Select all on this page", onchange: () => this.#toggleAll() });
  #onChange;

  constructor(onChange) {
    this.#onChange = onChange;
  }

  get header() {
    return this.#all;
  }

  box(record) {
    const label = `Select ${record.event_type ?? "record"} ${record.id}`;
    const box = h("input", { type: "checkbox", "aria-label": label, onchange: () => this.#toggle(record.id, box.checked) });
    this.#rows.set(record.id, { box, record });
    return box;
  }

  get isEmpty() {
    return !this.#filter && this.#ids.size === 0;
  }

  // {which, count, about}: what a change needs.
  get chosen() {
    if (this.#filter) return this.#filter;
    return { which: { ids: [...this.#ids] }, count: this.#ids.size, about: null };
  }

  get words() {
    const { count: n, about } = this.chosen;
    return about ? `${records(n)} selected: ${about}` : `${records(n)} selected`;
  }

  clear() {
    this.#filter = null;
    this.#ids.clear();
    this.#changed();
  }

  // Rows are about to be made anew.
  forget() {
    this.#rows.clear();
    this.clear();
  }

  // `matches` says which rows of the page are among them.
  choose(filter, number, about, matches) {
    this.#filter = { which: { filter }, count: number, about, matches };
    this.#ids.clear();
    this.#changed();
  }

  // Out of a run or of all that match, it leaves what of them is on this page.
  #toggle(id, chosen) {
    if (this.#filter) this.#ids = new Set([...this.#rows].filter(([, { box }]) => box.checked).map(([row]) => row));
    this.#filter = null;
    if (chosen) this.#ids.add(id);
    else this.#ids.delete(id);
    this.#changed();
  }

  #toggleAll() {
    this.#filter = null;
    this.#ids = new Set(this.#all.checked ? this.#rows.keys() : []);
    this.#changed();
  }

  #changed() {
    let ticked = 0;
    for (const [id, { box, record }] of this.#rows) {
      box.checked = this.#filter ? this.#filter.matches(record) : this.#ids.has(id);
      ticked += box.checked ? 1 : 0;
    }
    this.#all.checked = ticked > 0 && ticked === this.#rows.size;
    this.#all.indeterminate = ticked > 0 && ticked < this.#rows.size;
    this.#onChange();
  }
}

// The line above the list: how many, and what can be done with them. Always there, so that nothing moves when a box is ticked.
export function selectionBar(selection, { matching, chooseAll, act }) {
  const words = h("span", { class: "words", role: "status" });
  const extra = h("span");
  const button = (verb, label, kind) =>
    h("button", { type: "button", class: kind, onclick: () => !selection.isEmpty && act(verb) }, label);
  const buttons = [button("resend", "Resend…", "primary"), button("discard", "Discard…", "danger")];
  const clear = h("button", { type: "button", class: "quiet", onclick: () => selection.clear() }, "Clear selection");
  const bar = h("div", { class: "selection", role: "group", "aria-label": "Selection" }, words, extra, h("span", { class: "buttons" }, clear, buttons));
  const show = () => {
    bar.classList.toggle("none", selection.isEmpty);
    setText(words, selection.isEmpty ? "Select records to resend or discard them." : selection.words);
    for (const one of [...buttons, clear]) one.setAttribute("aria-disabled", selection.isEmpty);
    const offer = matching() > 0 && !selection.chosen.which.filter;
    replace(extra, offer && h("button", { type: "button", class: "link", onclick: chooseAll }, `Select all ${count(matching())} that match`));
  };
  return { element: bar, show };
}
