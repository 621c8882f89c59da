// A chart of up to the last five minutes: lines in an SVG that stretches, labels as text beside it, the values under the pointer.
import { h, setText, svg } from "./dom.js";
import { clockTime } from "./format.js";

const WIDTH = 300;
const HEIGHT = 90;
const MINUTE_MS = 60_000;
// A missing second is a gap in the line, not a slope across it.
const GAP_MS = 5_000;

// `lines` is [{name, value: point => number|null}], the first one filled; `show` writes a value.
export class Chart {
  #lines;
  #show;
  #title;
  #points = [];
  #end = 0;
  #span = MINUTE_MS;
  #hovered = null;
  #paths;
  #fill = svg("path", { class: "fill" });
  #cursor = svg("line", { class: "cursor", y1: 0, y2: HEIGHT });
  #top = h("span", { class: "top-label" });
  #values;
  #when = h("span", { class: "when" });
  #start = h("span");
  #picture;

  constructor(title, lines, show) {
    this.#title = title;
    this.#lines = lines;
    this.#show = show;
    this.#paths = lines.map((_, index) => svg("path", { class: `line line-${index}` }));
    this.#values = lines.map(() => h("b"));
    this.#picture = svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": title },
      svg("line", { class: "rule", x1: 0, x2: WIDTH, y1: HEIGHT / 2, y2: HEIGHT / 2 }),
      this.#fill,
      this.#paths,
      this.#cursor,
    );
    this.#picture.addEventListener("pointermove", (event) => this.#hover(event));
    this.#picture.addEventListener("pointerleave", () => this.#hover(null));
    this.element = h(
      "figure",
      { class: "chart" },
      h("figcaption", {}, h("span", { class: "name" }, title), this.#legend(), this.#when),
      h("div", { class: "plot" }, this.#picture, this.#top),
      h("div", { class: "axis", "aria-hidden": "true" }, this.#start, h("span", {}, "now")),
    );
  }

  #legend() {
    return this.#lines.map((line, index) =>
      h("span", { class: `key key-${index}` }, this.#lines.length > 1 && `${line.name} `, this.#values[index]),
    );
  }

  draw(points, end) {
    this.#points = points;
    this.#end = end;
    // Whole minutes, as many as there are: a page that was just opened is not an empty chart.
    this.#span = MINUTE_MS * Math.max(1, Math.ceil((end - (points[0]?.at ?? end)) / MINUTE_MS));
    setText(this.#start, `${this.#span / MINUTE_MS} min ago`);
    const highest = Math.max(0, ...this.#lines.flatMap((line) => points.map((point) => line.value(point) ?? 0)));
    const scale = ceiling(highest);
    this.#lines.forEach((line, index) => {
      const runs = this.#runs(line, scale);
      this.#paths[index].setAttribute("d", runs.map((run) => `M${run.join("L")}`).join(""));
      if (index === 0) this.#fill.setAttribute("d", runs.map(closed).join(""));
    });
    setText(this.#top, highest > 0 ? this.#show(scale) : "");
    this.#read();
    const now = this.#lines.map((line, i) => `${line.name} ${this.#values[i].textContent}`).join(", ");
    this.#picture.setAttribute("aria-label", `${this.#title}. Now: ${now}. Highest: ${this.#show(highest)}.`);
  }

  #x(at) {
    return WIDTH * (1 - (this.#end - at) / this.#span);
  }

  // Stretches of the line between gaps, each a list of "x,y".
  #runs(line, scale) {
    const runs = [];
    let last = null;
    for (const point of this.#points) {
      const value = line.value(point);
      if (value === null) {
        last = null;
        continue;
      }
      if (last === null || point.at - last > GAP_MS) runs.push([]);
      const y = HEIGHT - 1 - (HEIGHT - 3) * (value / scale);
      runs.at(-1).push(`${this.#x(point.at).toFixed(1)},${y.toFixed(1)}`);
      last = point.at;
    }
    return runs;
  }

  #hover(event) {
    if (event) {
      const box = this.#picture.getBoundingClientRect();
      this.#hovered = this.#end - this.#span * (1 - (event.clientX - box.left) / box.width);
    } else {
      this.#hovered = null;
    }
    this.#read();
  }

  // Writes the values under the pointer, or the last ones.
  #read() {
    const at = this.#hovered;
    const nearest = (best, point) => (Math.abs(point.at - at) < Math.abs(best.at - at) ? point : best);
    const point = at === null ? this.#points.at(-1) : this.#points.length ? this.#points.reduce(nearest) : undefined;
    this.#lines.forEach((line, index) => setText(this.#values[index], this.#show(point ? line.value(point) : null)));
    setText(this.#when, at === null || !point ? "" : clockTime(point.at));
    this.#cursor.classList.toggle("shown", at !== null && Boolean(point));
    if (at !== null && point) {
      const x = this.#x(point.at).toFixed(1);
      this.#cursor.setAttribute("x1", x);
      this.#cursor.setAttribute("x2", x);
    }
  }
}

const closed = (run) => {
  const [first, last] = [run[0].split(",")[0], run.at(-1).split(",")[0]];
  return `M${first},${HEIGHT}L${run.join("L")}L${last},${HEIGHT}Z`;
};

// The next of 1, 2, 5 × 10ⁿ, so that the scale does not jump with every value.
function ceiling(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= value) ?? value;
}
