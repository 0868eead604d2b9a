/** Small helpers to build and update elements. Texts are set as text, never as markup. */

const SVG = "http://www.w3.org/2000/svg";

/** Between the parts of a name such as `UpdateMetadata` or `partition.after_write`; of an error code. */
const BETWEEN_PARTS = /(?<=[a-z])(?=[A-Z])|(?<=[._/])(?=[a-z])/;
const BETWEEN_CAPITALS = /(?<=[A-Z]_)(?=[A-Z])/;

/**
 * Create an HTML element.
 * @param {string} tag its name, with an optional class: "div.card"
 * @param {Object} attributes names and values; a function is a listener (`onclick`), null and false leave one out
 * @param {...(Node|string|null)} children
 */
export function h(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return filled(document.createElement(name), classes, attributes, children);
}

/** Create an SVG element; the arguments are those of `h`. */
export function s(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  return filled(document.createElementNS(SVG, name), classes, attributes, children);
}

function filled(element, classes, attributes, children) {
  element.classList.add(...classes);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      element.addEventListener(name.slice(2), value);
    } else {
      setAttribute(element, name, value);
    }
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Text as nodes, in which words between backquotes are code. A line may break within `STALE_CONTROLLER_EPOCH`. */
export function marked(text) {
  return text.split("`").flatMap((part, number) => {
    const nodes = breakable(part, BETWEEN_CAPITALS);
    return number % 2 === 1 ? [h("code", {}, ...nodes)] : nodes;
  });
}

/** Set an attribute where its value differs; null and false remove it. */
export function setAttribute(element, name, value) {
  if (value === null || value === false) {
    element.removeAttribute(name);
  } else {
    const text = value === true ? "" : String(value);
    if (element.getAttribute(name) !== text) {
      element.setAttribute(name, text);
    }
  }
}

/** Set the text of an element where it differs, so that a frame without a change costs no layout. */
export function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

/**
 * Set a text that has a shorter form for narrow columns, without the words between « and ». Between the parts of a
 * name such as `UpdateMetadata` or `partition.after_write` a line may break.
 * @param {Element} element
 * @param {string} phrase for example "♛ «epoch »4"
 */
export function setPhrase(element, phrase) {
  if (element.phrase !== phrase) {
    element.phrase = phrase;
    const parts = phrase.split(/[«»]/).map((part) => breakable(part, BETWEEN_PARTS));
    const nodes = parts.flatMap((part, number) => (number % 2 === 1 ? [h("span.more", {}, ...part)] : part));
    element.replaceChildren(...nodes);
  }
}

/** Text as nodes, with places to break a line. */
function breakable(text, places) {
  return text.split(places).flatMap((part, number) => (number > 0 ? [h("wbr"), part] : [part]));
}

/** A phrase with all its words. */
export function wholePhrase(phrase) {
  return phrase.replace(/[«»]/g, "");
}

/**
 * Let a part of the picture explain itself, on hover and to a screen reader; it takes the focus if `isReachable`.
 * Without a text it is no part for now.
 */
export function explain(part, text, isReachable = false) {
  setAttribute(part, "title", text);
  setAttribute(part, "aria-label", text);
  setAttribute(part, "role", text === null ? null : "group");
  setAttribute(part, "tabindex", text !== null && isReachable ? 0 : null);
}

/**
 * Make the children of `parent` those of `keys`, in this order; an element with the same key is kept.
 * @param {Element} parent
 * @param {string[]} keys
 * @param {function(string): Element} create
 * @returns {Map<string, Element>} the element of each key
 */
export function keyed(parent, keys, create) {
  const known = parent.keyedChildren ?? new Map();
  const next = new Map();
  for (const key of keys) {
    next.set(key, known.get(key) ?? create(key));
  }
  for (const [key, element] of known) {
    if (!next.has(key)) {
      element.remove();
    }
  }
  let position = parent.firstElementChild;
  for (const element of next.values()) {
    if (element === position) {
      position = position.nextElementSibling;
    } else {
      parent.insertBefore(element, position);
    }
  }
  parent.keyedChildren = next;
  return next;
}

/** The element with an id. Throws where the page has none. */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) {
    throw new Error(`the page has no element #${id}`);
  }
  return found;
}

/**
 * Clear a canvas that fills its parent, at the resolution of the screen.
 * @param {HTMLCanvasElement} canvas
 * @param {number} scale how many CSS pixels a unit of the drawing has
 * @returns {{context: CanvasRenderingContext2D, width: number, height: number}} sizes in units
 */
export function sized(canvas, scale = 1) {
  return cleared(canvas, canvas.clientWidth / scale, canvas.clientHeight / scale, scale);
}

/**
 * Clear a canvas of a size in units, at the resolution of the screen; the rest is as in `sized`.
 */
export function cleared(canvas, width, height, scale = 1) {
  const ratio = (window.devicePixelRatio || 1) * scale;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height };
}

/** The value of a CSS custom property, so that canvases have the colours of the theme. */
export function themeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Return how much larger the type of the page is than usual: the property `--type` of page.css, 1 without that. */
export function typeScale() {
  return Number(themeColour("--type")) || 1;
}
