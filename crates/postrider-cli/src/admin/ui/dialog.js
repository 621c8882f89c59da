// A question before a change. It names what will happen, runs it, and shows the server's words when it is refused.
import { h, prose, replace } from "./dom.js";

// `question` is {title, explain, verb, danger, count, run}: the first three are functions of the count. `run(count)` makes the change.
// Resolves to what `run` gave, or to null when the reader thought better of it.
export function ask(question) {
  return new Promise((resolve) => {
    const asked = new Question(question, (result) => {
      asked.element.remove();
      resolve(result);
    });
    document.body.append(asked.element);
    asked.element.showModal();
  });
}

class Question {
  #question;
  #count;
  #done;
  #running = false;
  #title = h("h2", { id: "question" });
  #explain = h("div", { class: "explain" });
  #refusal = h("p", { class: "notice bad", role: "alert", hidden: true });
  #no;
  #yes;

  constructor(question, done) {
    this.#question = question;
    this.#count = question.count;
    this.#done = done;
    // Enter must not delete by accident, so a deletion starts with its way out.
    this.#no = h("button", { type: "button", autofocus: question.danger, onclick: () => this.element.close() }, "Cancel");
    this.#yes = h("button", {
      type: "button",
      class: question.danger ? "danger" : "primary",
      autofocus: !question.danger,
      onclick: () => this.#run(),
    });
    this.element = h(
      "dialog",
      {
        "aria-labelledby": "question",
        oncancel: (event) => this.#running && event.preventDefault(),
        // Closing gives the focus back to where it was.
        onclose: () => this.#done(this.result ?? null),
      },
      this.#title,
      this.#explain,
      this.#refusal,
      h("div", { class: "buttons" }, this.#no, this.#yes),
    );
    this.#show();
  }

  #show() {
    replace(this.#title, this.#question.title(this.#count));
    replace(this.#explain, this.#question.explain(this.#count));
    replace(this.#yes, this.#question.verb(this.#count));
  }

  async #run() {
    if (this.#running) return;
    this.#busy(true);
    this.#refusal.hidden = true;
    try {
      this.result = await this.#question.run(this.#count);
      this.#running = false;
      this.element.close();
    } catch (error) {
      this.#busy(false);
      // Another number matches by now: the next press is about that number, and says so.
      if (typeof error.count === "number") {
        this.#count = error.count;
        this.#show();
      }
      this.#refusal.hidden = false;
      replace(this.#refusal, prose(error.message));
      this.#no.focus();
    }
  }

  // Not `disabled`, which would throw the focus out of the dialog.
  #busy(running) {
    this.#running = running;
    this.#yes.setAttribute("aria-disabled", running);
    this.#no.setAttribute("aria-disabled", running);
    this.element.setAttribute("aria-busy", running);
  }
}
