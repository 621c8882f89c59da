// Sending published records once more: count first, then watch it, or stop it.
import { outbox as api } from "../api.js";
import { startReplay } from "../changes.js";
import { h, prose, replace, say, setText } from "../dom.js";
import { count, records, time } from "../format.js";
import { failure, FILTERS, field, heading, notice, chip, viewOnly } from "../parts.js";

const POLL_MS = 1_000;

export function replay({ route, me }) {
  const operate = me.role === "operate";
  const abort = new AbortController();
  const progress = new Progress(route.outbox, operate);
  const problem = h("div");
  let timer = null;

  async function poll() {
    clearTimeout(timer);
    if (abort.signal.aborted) return;
    try {
      progress.show(await api(route.outbox).replay(abort.signal));
    } catch (error) {
      if (error.name === "AbortError") return;
      progress.fail(error);
    }
    timer = setTimeout(poll, POLL_MS);
  }

  async function submit(event) {
    event.preventDefault();
    replace(problem);
    const form = Object.fromEntries([...new FormData(event.currentTarget)].map(([name, value]) => [name, value.trim()]));
    const { ids: list, to_topic, rate, ...filter } = form;
    const ids = list.split(/[\s,]+/).filter(Boolean);
    const what = Object.fromEntries(Object.entries({ ...filter, to_topic }).filter(([, value]) => value));
    if (ids.length) what.ids = ids;
    if (rate) what.rate = Number(rate);
    try {
      const number = await api(route.outbox).count({ ...filter, id: ids, state: "published" }, abort.signal);
      if (number === 0) return replace(problem, notice("info", "No published record that is still stored matches. Nothing was sent."));
      const started = await startReplay(route.outbox, what, number, null);
      if (started === null) return;
      progress.show(started);
      say("The replay has started.");
      progress.element.focus();
      poll();
    } catch (error) {
      if (error.name !== "AbortError") replace(problem, failure(error));
    }
  }

  poll();
  return {
    title: `Replay of ${route.outbox}`,
    element: h(
      "div",
      {},
      heading("Replay", route.outbox),
      h("p", { class: "lead" }, "Sends published records that are still stored once more, each marked by a header. The records themselves do not change."),
      progress.element,
      operate ? form(submit, problem) : viewOnly("replaying"),
    ),
    refresh() {},
    close() {
      abort.abort();
      clearTimeout(timer);
    },
  };
}

const form = (onsubmit, problem) =>
  h(
    "form",
    { class: "card stacked", onsubmit, "aria-label": "New replay" },
    h("h2", {}, "New replay"),
    h(
      "div",
      { class: "filters" },
      ["since", "until", "type", "key"].map((name) => field(name, FILTERS[name])),
      field("to_topic", { label: "To topic", placeholder: "as routed" }),
      field("rate", { label: "At most a second", placeholder: "unlimited", type: "number", min: 1, step: 1 }),
      h("label", { class: "field wide" }, h("span", {}, "Record ids"), h("textarea", { name: "ids", rows: 2, placeholder: "one a line", spellcheck: "false" })),
    ),
    h("p", { class: "muted" }, "At least one of newer than, type, key or ids is needed."),
    problem,
    h("div", { class: "buttons" }, h("button", { type: "submit", class: "primary" }, "Count and replay…")),
  );

const KINDS = { running: "info", done: "good", stopped: "warn", failed: "bad" };

class Progress {
  #name;
  #operate;
  #state = "";
  #words = h("p", { role: "status" });
  #meter = h("progress", { max: 1, value: 0, "aria-label": "Replayed" });
  #numbers = h("p", { class: "numbers" });
  #stop;

  constructor(name, operate) {
    this.#name = name;
    this.#operate = operate;
    this.#stop = h("button", { type: "button", class: "danger", onclick: () => this.#end() }, "Stop the replay");
    this.element = h("section", { class: "card", "aria-label": "Replay in progress", tabindex: -1, hidden: true });
  }

  show(replay) {
    this.element.hidden = !replay;
    if (!replay) return;
    const as = [replay.state, replay.started_at, replay.error].join();
    if (as !== this.#state) {
      this.#state = as;
      replace(this.#words, chip(KINDS[replay.state] ?? "", replay.state), ` started by ${replay.by ?? "someone"}, `, time(replay.started_at));
      replace(
        this.element,
        h("h2", {}, replay.state === "running" ? "Replaying" : "Last replay"),
        this.#words,
        this.#meter,
        this.#numbers,
        replay.error && notice("bad", prose(replay.error)),
        this.#operate && replay.state === "running" && this.#stop,
      );
    }
    const { sent = 0, total } = replay;
    this.#meter.max = total || 1;
    this.#meter.value = replay.state === "done" && !total ? 1 : sent;
    setText(this.#numbers, typeof total === "number" ? `${count(sent)} of ${records(total)} sent` : `${records(sent)} sent`);
  }

  fail(error) {
    this.element.hidden = false;
    this.#state = "";
    replace(this.element, failure(error));
  }

  async #end() {
    try {
      this.show(await api(this.#name).stopReplay());
      say("The replay was stopped.");
      this.element.focus();
    } catch (error) {
      this.fail(error);
    }
  }
}
