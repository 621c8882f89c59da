// The figures of the last five minutes, from which the charts are drawn.

const WINDOW_MS = 5 * 60 * 1000;
const POINTS_MAX = 600;

// One outbox's figures over time. Totals become rates here: a server keeps no window for us.
export class Series {
  points = [];
  #last = null;

  add(at, outbox) {
    const point = {
      at,
      rate: this.#rate(at, outbox.published_total),
      p50: outbox.publish_seconds?.p50 ?? null,
      p99: outbox.publish_seconds?.p99 ?? null,
      backlog: outbox.pending ?? null,
    };
    this.#last = { at, total: outbox.published_total };
    this.points.push(point);
    const oldest = at - WINDOW_MS;
    while (this.points.length > POINTS_MAX || this.points[0].at < oldest) this.points.shift();
  }

  // Unknown at first, and where a restarted relay counts from 0 again.
  #rate(at, total) {
    const last = this.#last;
    if (!last || typeof total !== "number" || typeof last.total !== "number") return null;
    const seconds = (at - last.at) / 1000;
    return seconds > 0 && total >= last.total ? (total - last.total) / seconds : null;
  }
}
