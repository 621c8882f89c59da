// How figures, ages and times read. What is not known is a dash.
import { h } from "./dom.js";

export const UNKNOWN = "–";

const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat(undefined, { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

const known = (value) => typeof value === "number" && Number.isFinite(value);

export const count = (value) => (known(value) ? whole.format(value) : UNKNOWN);

export const rate = (value) => (known(value) ? (value < 10 && value > 0 ? tenth : whole).format(value) : UNKNOWN);

export const records = (value, kind = "") => `${count(value)} ${kind}${kind && " "}${value === 1 ? "record" : "records"}`;

export function age(seconds) {
  if (!known(seconds)) return UNKNOWN;
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// Where there is room for one unit only.
export function shortAge(seconds) {
  if (!known(seconds)) return UNKNOWN;
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 2 * 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

export function latency(seconds) {
  if (!known(seconds)) return UNKNOWN;
  if (seconds < 0.01) return `${tenth.format(seconds * 1000)} ms`;
  if (seconds < 1) return `${whole.format(seconds * 1000)} ms`;
  return `${tenth.format(seconds)} s`;
}

export function bytes(value) {
  if (!known(value)) return UNKNOWN;
  if (value < 1024) return `${count(value)} bytes`;
  if (value < 1024 * 1024) return `${tenth.format(value / 1024)} KiB`;
  return `${tenth.format(value / 1024 / 1024)} MiB`;
}

export const clockTime = (ms) => clock.format(new Date(ms));

// Local time to read, UTC in the title.
export function time(iso) {
  const date = iso ? new Date(iso) : null;
  if (!date || Number.isNaN(date.getTime())) return h("span", { class: "muted" }, UNKNOWN);
  return h("time", { datetime: date.toISOString(), title: `${date.toISOString()} (UTC)` }, local.format(date));
}

// How long ago, with both times in the title.
export function ago(iso) {
  const date = iso ? new Date(iso) : null;
  if (!date || Number.isNaN(date.getTime())) return h("span", { class: "muted" }, UNKNOWN);
  const title = `${local.format(date)}, ${date.toISOString()} (UTC)`;
  return h("time", { datetime: date.toISOString(), title }, `${shortAge((Date.now() - date.getTime()) / 1000)} ago`);
}

export const text = (value) =>
  value === null || value === undefined || value === "" ? h("span", { class: "muted" }, UNKNOWN) : String(value);
