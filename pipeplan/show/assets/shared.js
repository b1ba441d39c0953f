"use strict";
// What the pages with settings have in common: their controls, which may come from the address, and shapes to draw with.

const short = (value) => String(Number(value.toPrecision(4)));
const percent = (share) => `${(100 * share).toFixed(1)} %`;

// ---- settings: from the controls, and from the address, which anybody may have written ---------------------------------

const controls = [...document.querySelectorAll("[data-setting]")];
const control = Object.fromEntries(controls.map((input) => [input.dataset.setting, input]));
const isNumber = (input) => ["range", "number"].includes(input.type);

function readSettings() {
  const value = (input) => (input.type === "checkbox" ? Number(input.checked) : isNumber(input) ? Number(input.value) : input.value);
  return Object.fromEntries(controls.map((input) => [input.dataset.setting, value(input)]));
}

// What is wrong with the part after #; null: nothing. Every setting once, in its range and on its steps.
function faultIn(pairs, highest = (input) => input.max) {
  const names = pairs.map(([name]) => name), given = Object.fromEntries(pairs);
  if (names.length !== controls.length || !controls.every((input) => names.includes(input.dataset.setting)))
    return "it does not give each setting of this page once";
  for (const input of controls) {
    const text = given[input.dataset.setting], name = input.dataset.name;
    if (!isNumber(input)) {
      const known = input.type === "checkbox" ? ["0", "1"] : [...input.options].map((option) => option.value);
      if (!known.includes(text)) return `there is no such ${name}`;
      continue;
    }
    if (!/^\d{1,15}(\.\d{1,20})?(e[+-]\d{1,2})?$/.test(text)) return `${name} is no plain number`;
    if (Number(text) < Number(input.min) || Number(text) > Number(highest(input, given))) return `${name} is not from ${input.min} to ${input.max}`;
    if (!Number.isInteger((Number(text) - Number(input.min)) / Number(input.step)))
      return `${name} is not in steps of ${input.step}`;
  }
  return null;
}

// ---- pictures: a row for each device, places across in pixels -----------------------------------------------------------

const ROW_HEIGHT = 38, NAME_HEIGHT = 16, BAR_HEIGHT = 18, CHARACTER_WIDTH = 7, AXIS_HEIGHT = 20, TICK_WIDTH = 90;

function shape(name, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// A rectangle that says what it is to the pointer, the keyboard and a screen reader.
function markShape(attributes, title) {
  const mark = shape("rect", { class: "mark", role: "img", "aria-label": title, tabindex: -1, ...attributes });
  mark.append(shape("title", {}, title));
  return mark;
}

// A few numbers up to `high` that are short to write.
function roundTicks(high, count) {
  const rough = high / count, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9));
  return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, i) => i * step);
}

function fill(picture, width, height, drawn) {
  picture.setAttribute("height", height);
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`); // on paper it is scaled
  picture.replaceChildren(...drawn);
  picture.querySelector(".mark")?.setAttribute("tabindex", 0);
}
