// One record: its fields, its history, what can be done with it, and its payload when asked for.
import { outbox as api } from "../api.js";
import { changeDead, startReplay } from "../changes.js";
import { h, prose, replace, say } from "../dom.js";
import { bytes, count, text, time } from "../format.js";
import { live } from "../live.js";
import { pretty } from "../pretty.js";
import { failure, heading, notice, state, viewOnly } from "../parts.js";
import { go, href } from "../route.js";

export const event = (context) => new EventPage(context);

class EventPage {
  #route;
  #operate;
  #api;
  #shown = "";
  #seen = null;
  #abort = new AbortController();
  #result = h("div", { class: "result", tabindex: -1 });
  #about = h("div", {}, h("p", { class: "muted" }, "Reading…"));
  #acts = h("div", { class: "acts" });
  #history = h("ol", { class: "timeline" });
  #payload;

  constructor({ route, me }) {
    this.#route = route;
    this.#operate = me.role === "operate";
    this.#api = api(route.outbox);
    this.title = `Record ${route.id} of ${route.outbox}`;
    this.#payload = h("div", {}, this.#operate ? this.#payloadButton() : viewOnly("reading a payload"));
    this.element = h(
      "div",
      { class: "event-page" },
      heading("Record", route.outbox, h("span", { class: "meta id" }, route.id)),
      this.#result,
      h(
        "div",
        { class: "columns" },
        h("section", { class: "card", "aria-label": "Fields" }, this.#about, this.#acts),
        h("section", { class: "card", "aria-label": "History" }, h("h2", {}, "History"), this.#history),
      ),
      h("section", { class: "card", "aria-label": "Payload" }, h("h2", {}, "Payload"), this.#payload),
    );
    this.#load();
  }

  // Reads again when the relay has done something: the record may be among it.
  refresh() {
    const o = live.outbox(this.#route.outbox);
    if (!o) return;
    const now = [o.published_total, o.failed_total, o.dead_total, o.dead, o.pending].join();
    if (this.#seen !== null && now !== this.#seen && !document.querySelector("dialog")) this.#load();
    this.#seen = now;
  }

  async #load() {
    try {
      const found = await this.#api.record(this.#route.id, this.#abort.signal);
      const shown = JSON.stringify(found);
      if (shown === this.#shown) return;
      this.#shown = shown;
      this.#show(found);
    } catch (error) {
      if (error.name === "AbortError") return;
      this.#shown = "";
      replace(this.#about, failure(error));
      replace(this.#acts);
    }
  }

  #show({ record, history }) {
    const row = (label, value) => [h("dt", {}, label), h("dd", {}, value)];
    const key = record.key && h("a", { href: href(this.#route.outbox, "records", { key: record.key }) }, record.key);
    replace(
      this.#about,
      h("h2", {}, record.event_type ?? "(no type)", state(record.state)),
      record.error && h("p", { class: "last-error" }, prose(record.error)),
      h(
        "dl",
        { class: "fields" },
        row("Event id", text(record.event_id)),
        row("Key", key || text(null)),
        row("Topic", text(record.topic)),
        row("Aggregate", text([record.aggregate_type, record.aggregate_id].filter(Boolean).join(" "))),
        row("Attempts", count(record.attempts)),
        row("Emitted", time(record.created_at)),
        row("Published", time(record.published_at)),
        row("Next attempt", time(record.retry_at)),
        row("Payload size", bytes(record.payload_bytes)),
      ),
    );
    replace(this.#acts, this.#buttons(record));
    replace(this.#history, history.map(step));
  }

  #buttons(record) {
    const dead = record.state === "dead";
    if (!dead && record.state !== "published") return null;
    if (!this.#operate) return viewOnly(dead ? "resending and discarding" : "replaying");
    const button = (label, kind, act) => h("button", { type: "button", class: kind, onclick: act }, `${label}…`);
    return dead
      ? [button("Resend", "primary", () => this.#change("resend")), button("Discard", "danger", () => this.#change("discard"))]
      : button("Replay this one", "", () => this.#replay());
  }

  async #change(verb) {
    const done = await changeDead(verb, this.#route.outbox, { ids: [this.#route.id] }, 1, null);
    if (done === null) return;
    replace(this.#result, notice("good", done));
    say(done);
    this.#result.focus();
    await this.#load();
  }

  async #replay() {
    const started = await startReplay(this.#route.outbox, { ids: [this.#route.id] }, 1, null);
    if (started !== null) go(this.#route.outbox, "replay");
  }

  #payloadButton() {
    return [
      h("button", { type: "button", onclick: () => this.#showPayload() }, "Show payload"),
      h("p", { class: "muted" }, "Reading it is logged and written to the audit table."),
    ];
  }

  async #showPayload() {
    try {
      const { encoding, payload, truncated } = await this.#api.payload(this.#route.id);
      replace(
        this.#payload,
        truncated && notice("warn", "Only the first 1 MiB is shown."),
        encoding === "base64" && h("p", { class: "muted" }, "These bytes are not text: base64."),
        h("pre", { class: "payload", tabindex: 0, "aria-label": "Payload" }, encoding === "text" ? pretty(payload) : payload),
      );
      say("The payload is shown.");
      this.#payload.querySelector("pre").focus();
      await this.#load();
    } catch (error) {
      replace(this.#payload, failure(error), this.#payloadButton());
    }
  }

  close() {
    this.#abort.abort();
  }
}

const KINDS = { failed: "warn", dead: "bad", discarded: "bad", published: "good", emitted: "info", resent: "info", replayed: "info" };

const step = ({ at, what, by, detail, attempt }) =>
  h(
    "li",
    { class: KINDS[what] ?? "" },
    h("p", {}, h("b", {}, what), attempt ? ` (attempt ${count(attempt)})` : "", by ? ` by ${by}` : "", h("span", { class: "at" }, at ? time(at) : "time not known")),
    detail && h("p", { class: "detail" }, prose(detail)),
  );
