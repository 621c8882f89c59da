// Every outbox at a glance: figures, the last five minutes, and what holds it up.
import { outbox as api } from "../api.js";
import { Chart } from "../chart.js";
import { h, prose, replace, setClass, setText } from "../dom.js";
import { age, count, latency, rate, shortAge, UNKNOWN } from "../format.js";
import { live } from "../live.js";
import { chip, empty, failure, heading } from "../parts.js";
import { href } from "../route.js";

const DIAGNOSE_EVERY_MS = 15_000;
const LANES = 32;
const COUNTED_LATE_S = 10;

export function overview() {
  const cards = new Map();
  const waiting = h("p", { class: "muted" }, "Waiting for the first figures…");
  const list = h("div", { class: "outboxes" }, waiting);
  const meta = h("span", { class: "muted meta" });
  return {
    title: "Overview",
    element: h("div", {}, heading("Overview", null, meta), list),
    refresh() {
      if (!live.overview) return;
      waiting.remove();
      const { version, started_at, at, outboxes } = live.overview;
      setText(meta, `Postrider ${version}, up ${age((Date.parse(at) - Date.parse(started_at)) / 1000)}`);
      for (const outbox of outboxes) {
        if (!cards.has(outbox.name)) {
          cards.set(outbox.name, new Card(outbox.name));
          list.append(cards.get(outbox.name).element);
        }
        cards.get(outbox.name).show(outbox);
      }
    },
    close: () => cards.forEach((card) => card.close()),
  };
}

class Card {
  #name;
  #status = h("span");
  #facts = h("p", { class: "facts" });
  #reasons = h("ul", { class: "reasons" });
  #tiles;
  #charts;
  #findings = h("div", { class: "findings" }, h("p", { class: "muted" }, "Looking…"));
  #abort = new AbortController();
  #lookedAt = 0;
  #lookedAs = "";

  constructor(name) {
    this.#name = name;
    const to = (page, query) => href(name, page, query);
    this.#tiles = {
      pending: new Tile("Backlog", { href: to("records", { state: "pending" }) }),
      oldest: new Tile("Oldest waits"),
      rate: new Tile("Published/s"),
      p50: new Tile("Latency p50"),
      p99: new Tile("Latency p99"),
      dead: new Tile("Dead letters", { href: to("dead") }),
      parked: new Tile("Parked keys", { href: to("parked") }),
      breaker: new Tile("Breaker"),
      lanes: new Tile("Lanes held"),
    };
    this.#charts = [
      new Chart("Published per second", [{ name: "published", value: (p) => p.rate }], rate),
      new Chart(
        "Publish latency",
        [
          { name: "p50", value: (p) => p.p50 },
          { name: "p99", value: (p) => p.p99 },
        ],
        latency,
      ),
      new Chart("Backlog", [{ name: "backlog", value: (p) => p.backlog }], count),
    ];
    this.element = h(
      "section",
      { class: "card", "aria-label": `Outbox ${name}` },
      h("div", { class: "card-head" }, h("h2", {}, name), this.#status, this.#facts),
      this.#reasons,
      h("dl", { class: "tiles" }, Object.values(this.#tiles).map((tile) => tile.element)),
      h("div", { class: "charts" }, this.#charts.map((chart) => chart.element)),
      h("h3", {}, "What holds it up"),
      this.#findings,
    );
  }

  show(outbox) {
    this.#showHealth(outbox);
    const points = live.series.get(this.#name)?.points ?? [];
    const tiles = this.#tiles;
    tiles.pending.show(count(outbox.pending));
    tiles.oldest.show(outbox.pending === 0 ? "nothing" : shortAge(outbox.oldest_age));
    tiles.rate.show(rate(points.at(-1)?.rate));
    tiles.p50.show(latency(outbox.publish_seconds?.p50));
    tiles.p99.show(latency(outbox.publish_seconds?.p99));
    tiles.dead.show(count(outbox.dead), outbox.dead > 0 ? "bad" : "");
    tiles.parked.show(count(outbox.parked), outbox.parked > 0 ? "warn" : "");
    tiles.breaker.show(outbox.breaker ?? UNKNOWN, outbox.breaker === "closed" ? "" : "bad");
    tiles.lanes.show(outbox.ordering === "none" ? "unused" : `${count(outbox.lanes_held)} of ${LANES}`);
    const end = Date.parse(live.overview.at);
    this.#charts.forEach((chart) => chart.draw(points, end));
    this.#diagnose(outbox);
  }

  #showHealth(outbox) {
    setClass(this.#status, `chip ${outbox.ready ? "good" : "bad"}`);
    setText(this.#status, outbox.ready ? "Ready" : "Not ready");
    const order = outbox.ordering === "key" ? "in order per key" : "without order";
    setText(this.#facts, `${outbox.layout} layout, ${outbox.table} → ${outbox.broker}, ${outbox.claim} claims, ${order}${late(outbox)}`);
    const reasons = [
      ["Database", outbox.database],
      ["Broker", outbox.broker_state],
    ].filter(([, state]) => state && !state.ready);
    const words = reasons.map(([what, state]) => `${what}: ${state.reason ?? "not ready yet"}`);
    if (words.join("\n") !== [...this.#reasons.children].map((item) => item.textContent).join("\n")) {
      replace(this.#reasons, words.map((reason) => h("li", {}, reason)));
    }
  }

  // The questions behind it cost the database something, so they are asked now and then, and when something changed.
  #diagnose(outbox) {
    const as = [outbox.ready, outbox.breaker, outbox.dead > 0, outbox.parked].join();
    if (as === this.#lookedAs && Date.now() - this.#lookedAt < DIAGNOSE_EVERY_MS) return;
    this.#lookedAs = as;
    this.#lookedAt = Date.now();
    this.#ask();
  }

  async #ask() {
    try {
      const findings = await api(this.#name).diagnosis(this.#abort.signal);
      const shown = JSON.stringify(findings);
      if (this.shown === shown) return;
      this.shown = shown;
      replace(this.#findings, findings.length ? findingList(findings) : empty("Nothing holds this outbox up."));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.shown = null;
      replace(this.#findings, failure(error));
    }
  }

  close() {
    this.#abort.abort();
  }
}

// A database that is slow to count is not a backlog that stands still.
function late(outbox) {
  const seconds = (Date.parse(live.overview.at) - Date.parse(outbox.counted_at)) / 1000;
  return seconds > COUNTED_LATE_S ? `; counted ${age(seconds)} ago` : "";
}

const LEVELS = { error: "bad", warning: "warn", note: "info" };

const findingList = (findings) =>
  h(
    "ul",
    {},
    findings.map((finding) =>
      h(
        "li",
        {},
        chip(LEVELS[finding.level] ?? "", finding.level),
        h(
          "div",
          {},
          h("p", {}, h("b", {}, finding.subject), " ", prose(finding.message)),
          finding.remedy && h("p", { class: "remedy" }, h("b", {}, "Next: "), prose(finding.remedy)),
        ),
      ),
    ),
  );

class Tile {
  #value = h("dd");

  constructor(label, { href } = {}) {
    this.element = h("div", { class: "tile" }, h("dt", {}, href ? h("a", { href }, label) : label), this.#value);
  }

  show(value, kind = "") {
    setText(this.#value, value);
    setClass(this.#value, kind);
  }
}
