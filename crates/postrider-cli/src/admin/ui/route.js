// Addresses: `#/`, `#/{outbox}/{page}?filter`, `#/{outbox}/records/{id}`. So links and Back work, and no server has to know them.

export const PAGES = [
  ["overview", "Overview"],
  ["dead", "Dead letters"],
  ["parked", "Parked keys"],
  ["records", "Records"],
  ["replay", "Replay"],
  ["audit", "Audit"],
];

export function href(outbox, page, query = {}, id) {
  if (page === "overview") return "#/";
  const search = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
  const path = [outbox, page, ...(id === undefined ? [] : [id])].map(encodeURIComponent).join("/");
  return `#/${path}${search.size ? `?${search}` : ""}`;
}

export function go(...where) {
  location.hash = href(...where);
}

// Null where the address means nothing.
export function route(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  if (path === "") return { page: "overview", query: {} };
  let parts;
  try {
    parts = path.split("/").map(decodeURIComponent);
  } catch {
    return null;
  }
  const [outbox, page, id] = parts;
  const query = Object.fromEntries(new URLSearchParams(search));
  if (page === "records" && id && parts.length === 3) return { outbox, page: "event", id, query };
  const known = PAGES.some(([name]) => name === page && name !== "overview");
  return known && parts.length === 2 ? { outbox, page, query } : null;
}
