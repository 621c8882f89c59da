// Dead letters: find, select, resend or discard.
import { outbox as api } from "../api.js";
import { changeDead } from "../changes.js";
import { h, replace, say, setText } from "../dom.js";
import { records } from "../format.js";
import { live } from "../live.js";
import { empty, failure, filterForm, filterOf, heading, notice, pager, recordColumns, table, viewOnly } from "../parts.js";
import { Selection, selectionBar } from "../selection.js";

const FIELDS = ["id", "type", "key", "topic", "error", "since", "until"];

export const dead = (context) => new DeadPage(context);

class DeadPage {
  #route;
  #operate;
  #api;
  #matching = 0;
  #seen = null;
  // The latest question about the list, and the answer that is shown.
  #asked = 0;
  #shown = "";
  #abort = new AbortController();
  #total = h("span", { class: "muted meta", role: "status" });
  #result = h("div", { class: "result", tabindex: -1 });
  #stale = h("div", { class: "stale" });
  #list = h("div", { class: "list" }, h("p", { class: "muted" }, "Reading…"));
  #selection = new Selection(() => this.#bar.show());
  #bar = selectionBar(this.#selection, {
    matching: () => this.#matching,
    chooseAll: () => this.#chooseAll(),
    act: (verb) => this.#act(verb),
  });

  constructor({ route, me }) {
    this.#route = route;
    this.#operate = me.role === "operate";
    this.#api = api(route.outbox);
    this.title = `Dead letters of ${route.outbox}`;
    this.#bar.show();
    this.element = h(
      "div",
      {},
      heading("Dead letters", route.outbox, this.#total),
      filterForm(route, FIELDS),
      this.#result,
      this.#stale,
      this.#operate ? this.#bar.element : viewOnly("resending and discarding"),
      this.#list,
    );
    this.#load();
  }

  get #filter() {
    return filterOf(this.#route);
  }

  // A list that someone works on does not change under their hands: then it only says that it is old.
  refresh() {
    const now = live.outbox(this.#route.outbox)?.dead;
    if (typeof now !== "number" || now === this.#seen) return;
    const first = this.#seen === null;
    this.#seen = now;
    if (first) return;
    if (this.#inUse) this.#sayOld();
    else this.#load({ unasked: true });
  }

  get #inUse() {
    return !this.#selection.isEmpty || this.#list.contains(document.activeElement) || document.querySelector("dialog") !== null;
  }

  #sayOld() {
    const again = h("button", { type: "button", onclick: () => this.#load() }, "Read again");
    replace(this.#stale, notice("info", `The list has changed: ${records(this.#seen)} dead now. `, again));
  }

  // `unasked`: nobody waits for it, so it must not undo what someone did to the list meanwhile.
  async #load({ unasked = false } = {}) {
    const { signal } = this.#abort;
    const turn = ++this.#asked;
    const asked = { ...this.#filter, state: "dead" };
    try {
      const [page, matching] = await Promise.all([
        this.#api.records({ ...asked, from: this.#route.query.from }, signal),
        this.#api.count(asked, signal),
      ]);
      const shown = JSON.stringify([page, matching]);
      if (turn !== this.#asked || (unasked && shown === this.#shown)) return;
      if (unasked && this.#inUse) return this.#sayOld();
      this.#shown = shown;
      this.#matching = matching;
      this.#show(page);
    } catch (error) {
      if (error.name === "AbortError" || turn !== this.#asked) return;
      this.#shown = "";
      replace(this.#list, failure(error));
    }
  }

  #show({ records: found, next }) {
    this.#selection.forget();
    replace(this.#stale);
    const match = this.#matching === 1 ? "matches" : "match";
    setText(this.#total, `${records(this.#matching)} ${Object.keys(this.#filter).length ? match : "in all"}`);
    replace(this.#list, found.length ? [this.#table(found), pager(this.#route, next)] : this.#nothing());
    this.#bar.show();
  }

  #nothing() {
    if (Object.keys(this.#filter).length) return empty("No dead record matches.", "Clear the filter to see all of them.");
    return empty("No dead letters.", "A record comes here when its attempts are used up or it can never be published.");
  }

  #table(found) {
    const [event, ...rest] = recordColumns(this.#route.outbox);
    const tick = { label: this.#selection.header, card: "Select", class: "tick", cell: (record) => this.#selection.box(record) };
    const run = { label: "Key's run", class: "run", cell: (record) => this.#runButton(record) };
    const columns = this.#operate ? [tick, event, ...rest, run] : [event, ...rest];
    return table(`Dead letters of ${this.#route.outbox}`, columns, found);
  }

  #runButton(record) {
    if (record.key === null || record.key === undefined) return "";
    const label = `Select the run of key ${record.key}`;
    return h("button", { type: "button", class: "link", "aria-label": label, title: label, onclick: () => this.#chooseRun(record.key) }, "Select run");
  }

  async #chooseRun(key) {
    await this.#choose({ key }, `the run of key ${key}, in order`, (record) => record.key === key);
  }

  async #chooseAll() {
    // The API names one record by `ids`, a filter knows none.
    const { id, ...filter } = this.#filter;
    if (id) return this.#selection.header.click();
    await this.#choose(filter, Object.keys(filter).length ? "all that match the filter" : "all dead letters", () => true);
  }

  async #choose(filter, about, matches) {
    try {
      const number = await this.#api.count({ ...filter, state: "dead" }, this.#abort.signal);
      this.#selection.choose(filter, number, about, matches);
    } catch (error) {
      if (error.name !== "AbortError") replace(this.#result, failure(error));
    }
  }

  async #act(verb) {
    const { which, count, about } = this.#selection.chosen;
    const done = await changeDead(verb, this.#route.outbox, which, count, about);
    if (done === null) return;
    replace(this.#result, notice("good", done));
    say(done);
    this.#result.focus();
    await this.#load();
  }

  close() {
    this.#abort.abort();
  }
}
