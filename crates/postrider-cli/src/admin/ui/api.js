// The admin API (docs/admin-api.md). The token lives as long as the tab.

const TOKEN = "postrider-token";

export const token = {
  get: () => sessionStorage.getItem(TOKEN),
  set: (value) => sessionStorage.setItem(TOKEN, value),
  clear: () => sessionStorage.removeItem(TOKEN),
};

export class ApiError extends Error {
  constructor(status, message, count) {
    super(message);
    this.status = status;
    // How many records match now, where the server says so (409).
    this.count = count;
  }
}

let refused = () => {};
export const onUnauthorised = (callback) => (refused = callback);

export function headers() {
  const given = token.get();
  return given ? { Authorization: `Bearer ${given}` } : {};
}

const query = (parameters) => {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters ?? {})) {
    for (const one of [value].flat()) {
      if (one !== undefined && one !== null && one !== "") search.append(name, one);
    }
  }
  return search.size ? `?${search}` : "";
};

export async function request(method, path, { parameters, body, signal } = {}) {
  const init = { method, headers: headers(), signal, cache: "no-store" };
  if (method !== "GET") {
    init.headers["Content-Type"] = "application/json";
    init.body = JSON.stringify(body ?? {});
  }
  let response;
  try {
    response = await fetch(path + query(parameters), init);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, `The relay at ${location.host} does not answer. Is it running?`);
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  if (response.status === 401) refused();
  throw new ApiError(response.status, answer.error ?? `The relay answered ${response.status}.`, answer.count);
}

export const me = () => request("GET", "/api/me");

// Everything that concerns one outbox.
export function outbox(name) {
  const base = `/api/outboxes/${encodeURIComponent(name)}`;
  const record = (id) => `${base}/records/${encodeURIComponent(id)}`;
  return {
    records: (parameters, signal) => request("GET", `${base}/records`, { parameters, signal }),
    count: (parameters, signal) => request("GET", `${base}/records/count`, { parameters, signal }).then((a) => a.count),
    record: (id, signal) => request("GET", record(id), { signal }),
    payload: (id) => request("GET", `${record(id)}/payload`),
    parked: (signal) => request("GET", `${base}/parked`, { signal }).then((a) => a.keys),
    diagnosis: (signal) => request("GET", `${base}/diagnosis`, { signal }).then((a) => a.findings),
    audit: (signal) => request("GET", `${base}/audit`, { signal }).then((a) => a.acts),
    change: (verb, which) => request("POST", `${base}/dead/${verb}`, { body: which }).then((a) => a.changed),
    replay: (signal) => request("GET", `${base}/replay`, { signal }).then((a) => a.replay),
    startReplay: (what) => request("POST", `${base}/replay`, { body: what }).then((a) => a.replay),
    stopReplay: () => request("DELETE", `${base}/replay`).then((a) => a.replay),
  };
}
