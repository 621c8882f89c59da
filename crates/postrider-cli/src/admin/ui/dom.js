// Elements are made here and nowhere else. Text is only ever set as text, so that nothing that came from a table can become markup.

const SVG = "http://www.w3.org/2000/svg";

export const h = (tag, props, ...children) => filled(document.createElement(tag), props, children);
export const svg = (tag, props, ...children) => filled(document.createElementNS(SVG, tag), props, children);

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...present(children));
  return element;
}

const present = (children) =>
  children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);

// Touches the page only where something changed: a screen reader and a selection are not disturbed each second.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setClass(element, name) {
  if (element.className !== name) element.className = name;
}

export const replace = (element, ...children) => element.replaceChildren(...present(children));

// Said to a screen reader, once.
export function say(text) {
  const spoken = document.getElementById("spoken");
  spoken.textContent = "";
  spoken.textContent = text;
}

// Findings and errors quote commands in backticks.
export const prose = (text) =>
  String(text)
    .split("`")
    .map((part, index) => (index % 2 === 1 ? h("code", {}, part) : part));
