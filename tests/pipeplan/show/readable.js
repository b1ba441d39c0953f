// What a reader would stumble over on this page: text that is cut off, lies on other text, is faint or small.
const faults = { "cut off": [], overlapping: [], faint: [], small: [] };
const paper = matchMedia("print").matches;
const style = (element) => getComputedStyle(element);
const short = (text) => text.trim().slice(0, 40);

// ---- all pieces of text that are seen, with the boxes of their lines ----
const pieces = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, parent = node.parentElement;
  if (!node.data.trim() || parent.closest("script, style, title") || !parent.checkVisibility({ contentVisibilityAuto: true })) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  const svg = parent.closest("text") !== null;
  const boxes = svg ? [parent.getBoundingClientRect()] : [...range.getClientRects()];
  for (const box of boxes) if (box.width > 0 && box.height > 0) pieces.push({ text: short(node.data), parent, box, svg });
}

// ---- cut off ----
if (document.documentElement.scrollWidth > innerWidth) faults["cut off"].push(`the page is ${document.documentElement.scrollWidth} wide`);
for (const frame of document.querySelectorAll(".scroll, td, dd, pre, li, p, h1"))
  if (frame.scrollWidth > frame.clientWidth + 1 && style(frame).display !== "inline")
    faults["cut off"].push(`${frame.tagName} ${frame.className}: ${short(frame.textContent)}`);
for (const { text, box } of pieces) if (box.left < -1 || box.right > innerWidth + 1) faults["cut off"].push(text);
for (const inside of document.querySelectorAll("text.inside")) {
  const box = inside.getBoundingClientRect(), task = inside.previousElementSibling.getBoundingClientRect();
  if (box.width > 0 && box.width > task.width + 0.5) faults["cut off"].push(`${inside.textContent} is wider than its task`);
}

// ---- overlapping ----
pieces.sort((a, b) => a.box.top - b.box.top);
pieces.forEach((a, i) => {
  for (let k = i + 1; k < pieces.length && pieces[k].box.top < a.box.bottom; k++) {
    const b = pieces[k];
    const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const high = Math.min(a.box.bottom, b.box.bottom) - b.box.top;
    if (wide > 1 && high > 3) faults.overlapping.push(`${a.text} on ${b.text}`);
  }
});

// ---- faint ----
const numbers = (colour) => (colour.match(/[0-9.]+/g) || []).map(Number);
const light = (colour) => {
  const [r, g, b] = colour.slice(0, 3).map((part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ratio = (one, other) => {
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
// What an element paints, with its share of it: lines their stroke, shapes their fill, all else a background.
const paint = (element) => {
  const shape = element instanceof SVGGeometryElement;
  const own = style(element), colour = element instanceof SVGLineElement ? own.stroke : shape ? own.fill : element instanceof SVGElement ? "none" : own.backgroundColor;
  const [r, g, b, a = 1] = numbers(colour);
  return r === undefined ? null : { colour: [r, g, b], share: a * Number(own.opacity) * (shape ? Number(own.fillOpacity) : 1) };
};
const ground = numbers(style(document.body).backgroundColor);
const behind = (x, y, parent) => {
  const layers = [];
  for (const element of document.elementsFromPoint(x, y)) {
    if (element === parent || element instanceof SVGTextElement) continue;
    const layer = paint(element);
    if (layer && layer.share > 0) layers.push(layer);
    if (layer && layer.share >= 1) break;
  }
  return layers.reverse().reduce((below, { colour, share }) => colour.map((part, i) => share * part + (1 - share) * below[i]), ground.slice(0, 3));
};
const inked = (parent, svg) => {
  const own = style(parent);
  return numbers(svg ? own.fill : own.color);
};
for (const { text, parent, box, svg } of pieces) {
  const own = style(parent), ink = inked(parent, svg), y = (box.top + box.bottom) / 2;
  const halo = svg && own.stroke !== "none" && own.paintOrder.startsWith("stroke") && parseFloat(own.strokeWidth) >= 3;
  const grounds = halo ? [numbers(own.stroke)] : [0.1, 0.5, 0.9].map((share) => behind(box.left + share * box.width, y, parent));
  const worst = Math.min(...grounds.map((colour) => ratio(ink, colour)));
  if (worst < 4.5) faults.faint.push(`${text} ${worst.toFixed(2)}`);
}

// ---- small ----
for (const { text, parent } of pieces) {
  const size = parseFloat(style(parent).fontSize);
  if (!paper && size < 11) faults.small.push(`${text} ${size}`);
}
return Object.fromEntries(Object.entries(faults).map(([name, texts]) => [name, [...new Set(texts)]]));
