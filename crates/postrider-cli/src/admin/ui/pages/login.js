// The token form, shown when the API says 401.
import { token } from "../api.js";
import { h, replace } from "../dom.js";
import { heading, notice } from "../parts.js";

// `enter()` tries the token that was stored and gives false where it was refused.
export function login(enter) {
  const problem = h("div", { "aria-live": "assertive" });
  const input = h("input", { type: "password", id: "token", autocomplete: "current-password", required: true, autofocus: true });

  async function submit(event) {
    event.preventDefault();
    token.set(input.value.trim());
    try {
      if (await enter()) return;
      replace(problem, notice("bad", "That token is not accepted."));
    } catch (error) {
      replace(problem, notice("bad", error.message));
    }
    token.clear();
    input.select();
  }

  return {
    title: "Sign in",
    element: h(
      "div",
      { class: "login" },
      heading("Sign in"),
      h(
        "form",
        { class: "card", onsubmit: submit },
        h("label", { for: "token" }, "Token"),
        input,
        h("p", { class: "muted" }, "One of the tokens in the relay's config. It is kept until this tab is closed."),
        problem,
        h("button", { type: "submit", class: "primary" }, "Sign in"),
      ),
    ),
    focus: input,
    refresh() {},
    close() {},
  };
}
