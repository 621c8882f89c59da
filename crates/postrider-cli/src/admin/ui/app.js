// The frame: who is here, which page, and the line that says whether the figures are live.
import * as api from "./api.js";
import { h, replace, say, setClass, setText } from "./dom.js";
import { clockTime, count } from "./format.js";
import { live, retry, start, stop, watch } from "./live.js";
import { audit } from "./pages/audit.js";
import { dead } from "./pages/dead.js";
import { event } from "./pages/event.js";
import { login } from "./pages/login.js";
import { overview } from "./pages/overview.js";
import { parked } from "./pages/parked.js";
import { records } from "./pages/records.js";
import { replay } from "./pages/replay.js";
import { empty, failure, heading } from "./parts.js";
import { go, href, PAGES, route as parse } from "./route.js";

const VIEWS = { overview, dead, parked, records, event, replay, audit };
const $ = (id) => document.getElementById(id);

let me = null;
let page = null;
let route = null;
// The outbox that the links of the frame lead to: the one last looked at.
let current = null;

function show(next, { focus = true } = {}) {
  page?.close();
  page = next;
  document.title = `${next.title} – Postrider`;
  replace($("content"), next.element);
  next.refresh();
  if (next.focus) next.focus.focus();
  else if (focus) next.element.querySelector("h1")?.focus({ preventScroll: true });
  if (focus) scrollTo(0, 0);
}

function navigate({ focus = true } = {}) {
  if (!me) return;
  route = parse(location.hash);
  if (route?.outbox) current = route.outbox;
  frame();
  if (!route) return show(lost(), { focus });
  show(VIEWS[route.page]({ route, me }), { focus });
}

const lost = () => ({
  title: "Not found",
  element: h("div", {}, heading("Not found"), empty("There is no such page.", h("a", { href: "#/" }, "To the overview"))),
  refresh() {},
  close() {},
});

// What does not change from second to second.
function frame() {
  const outboxes = live.overview?.outboxes ?? [];
  current ??= outboxes[0]?.name ?? null;
  const chosen = route?.page === "event" ? "records" : route?.page;
  const items = me ? PAGES.filter(([name]) => name === "overview" || current) : [];
  replace(
    $("pages"),
    items.map(([name, label]) =>
      h("li", {}, h("a", { href: href(current, name), "aria-current": name === chosen && "page" }, label, h("span", { class: "badge", id: `badge-${name}` }))),
    ),
  );
  const choose = $("outbox");
  choose.parentElement.hidden = !me || outboxes.length < 2;
  replace(choose, outboxes.map(({ name }) => h("option", { value: name, selected: name === current }, name)));
  $("find").hidden = !me || !current;
  $("leave").hidden = !me || !api.token.get();
  setText($("who"), me ? `${me.name ?? "you"} (${me.role})${me.demo ? ", demo" : ""}` : "");
  badges();
}

function badges() {
  const outbox = current && live.outbox(current);
  for (const [name, value] of [["dead", outbox?.dead], ["parked", outbox?.parked]]) {
    const badge = $(`badge-${name}`);
    if (badge) setText(badge, value > 0 ? count(value) : "");
  }
}

const STREAM = {
  live: ["good", "Live"],
  connecting: ["", "Connecting"],
  cut: ["bad", "Cut off"],
  refused: ["bad", "Signed out"],
};

// The same ones for as long as it is cut off: a button that someone is on must not be made anew under them.
const cutWords = h("span");
const tryNow = h("button", { type: "button", onclick: retry }, "Try now");

function showStream() {
  const { kind, error, retryAt } = live.state;
  const [color, label] = STREAM[kind];
  setClass($("stream"), `stream ${color}`);
  setText($("stream"), label);
  document.body.classList.toggle("stale", kind !== "live");
  // While it tries again the line stays: it must not flicker.
  if (kind === "cut") {
    const since = live.overview ? ` Figures are from ${clockTime(Date.parse(live.overview.at))}.` : "";
    const wait = Math.max(1, Math.round((retryAt - Date.now()) / 1000));
    setText(cutWords, `Live updates are cut off: ${error}${since} Next try in ${wait} s.`);
    if (!$("cut").firstChild) replace($("cut"), cutWords, tryNow);
  } else if (kind !== "connecting") {
    if ($("cut").firstChild) say("Live again.");
    replace($("cut"));
  }
}

// Asks who this is; false where a token is needed.
async function enter() {
  try {
    me = await api.me();
  } catch (error) {
    if (error.status === 401) return false;
    throw error;
  }
  start();
  navigate({ focus: false });
  return true;
}

function signIn() {
  const first = me !== null || page === null;
  me = null;
  stop();
  replace($("cut"));
  setText($("stream"), "");
  frame();
  if (first) show(login(enter));
}

async function begin() {
  try {
    await enter();
  } catch (error) {
    const again = h("button", { type: "button", onclick: begin }, "Try again");
    show({ title: "No answer", element: h("div", {}, heading("No answer"), failure(error), again), refresh() {}, close() {} });
  }
}

let known = "";
watch(() => {
  if (!me) return;
  showStream();
  if (live.state.kind === "refused") return signIn();
  const names = JSON.stringify(live.overview?.outboxes.map((outbox) => outbox.name));
  if (names !== known) {
    known = names;
    frame();
  }
  badges();
  page?.refresh();
});

api.onUnauthorised(signIn);
addEventListener("hashchange", () => navigate());
$("outbox").addEventListener("change", (change) => {
  current = change.target.value;
  const to = !route || route.page === "overview" ? "dead" : route.page === "event" ? "records" : route.page;
  go(current, to);
});
$("find").addEventListener("submit", (submit) => {
  submit.preventDefault();
  const id = $("find-id").value.trim();
  if (id) go(current, "records", {}, id);
});
$("leave").addEventListener("click", () => {
  api.token.clear();
  signIn();
});
document.querySelector(".skip").addEventListener("click", (click) => {
  // The address is the page's, so the link must not change it.
  click.preventDefault();
  $("content").focus();
});
addEventListener("keydown", (key) => {
  const typing = key.target.closest?.("input, textarea, select, dialog");
  if (key.key !== "/" || typing || key.ctrlKey || key.metaKey || key.altKey || $("find").hidden) return;
  key.preventDefault();
  $("find-id").focus();
});
begin();
