// Runs before the first paint, so that a chosen theme does not flash. The choice is the reader's own and stays in the browser.
"use strict";
(() => {
  const CHOICES = ["system", "light", "dark"];
  const stored = () => {
    try {
      return localStorage.getItem("postrider-theme");
    } catch {
      return null;
    }
  };
  const chosen = () => (CHOICES.includes(stored()) ? stored() : "system");
  const show = () => (document.documentElement.dataset.theme = chosen());
  const label = (button) => {
    button.textContent = `Theme: ${chosen()}`;
  };
  show();
  addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    label(button);
    button.addEventListener("click", () => {
      const next = CHOICES[(CHOICES.indexOf(chosen()) + 1) % CHOICES.length];
      try {
        localStorage.setItem("postrider-theme", next);
      } catch {
        // Storage is switched off: the choice cannot be kept.
      }
      show();
      label(button);
    });
  });
})();
