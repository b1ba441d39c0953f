// What a reader would stumble over in what is open, a line for each fault: text that is cut off, lies on other text, is
// small, or is faint on what really lies behind it. The window is as high as the page: what lies behind is asked for by
// places in the window.
const found = new Set();
const fault = (kind, ...words) => found.add(`${kind}: ${words.join(" ")}`);
const style = (element) => getComputedStyle(element);
const short = (text) => text.trim().replace(/\s+/g, " ").slice(0, 40);
const paper = matchMedia("print").matches;

// ---- all text that can be seen, with the boxes of its lines; what is for the ear alone is left out ----
const pieces = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const node = walker.currentNode, parent = node.parentElement, drawn = parent.closest("text") !== null;
  if (!node.data.trim() || parent.closest("script, style, title, option, .heard")) continue;
  if (!parent.checkVisibility({ contentVisibilityAuto: true })) continue;
  const range = document.createRange();
  range.selectNodeContents(node);
  for (const box of drawn ? [parent.getBoundingClientRect()] : range.getClientRects())
    if (box.width > 0 && box.height > 0) pieces.push({ text: short(node.data), parent, box, drawn });
}
for (const parent of document.querySelectorAll("select"))
  if (parent.checkVisibility())
    pieces.push({ text: parent.selectedOptions[0].text, parent, box: parent.getBoundingClientRect(), drawn: false });

// ---- cut off: by the window, by a frame around it, or wider than the place that it is given ----
if (document.documentElement.scrollWidth > innerWidth) fault("cut off", `page of ${document.documentElement.scrollWidth}`);
for (const frame of document.querySelectorAll("body *:not(svg *, svg, .heard, input, select, option)"))
  if (frame.scrollWidth > frame.clientWidth + 1 && frame.clientWidth && style(frame).display !== "inline")
    fault("cut off", frame.tagName, frame.className, short(frame.textContent));
const sheet = { left: 0, right: innerWidth, top: 0, bottom: Infinity };
for (const { text, parent, box } of pieces) {
  const frames = [sheet];
  for (let around = parent; around !== document.body; around = around.parentElement)
    if (style(around).overflow !== "visible") frames.push(around.getBoundingClientRect());
  if (frames.some(({ left, right, top, bottom }) =>
    box.left < left - 0.5 || box.right > right + 0.5 || box.top < top - 0.5 || box.bottom > bottom + 0.5)) fault("cut off", text);
}
for (const inside of document.querySelectorAll("text.inside"))
  if (inside.getBoundingClientRect().width > inside.previousElementSibling.getBoundingClientRect().width + 0.5)
    fault("cut off", `${inside.textContent} is wider than its task`);
const pen = document.createElement("canvas").getContext("2d"), arrow = 24;
for (const select of document.querySelectorAll("select")) {
  if (!select.checkVisibility()) continue;
  pen.font = style(select).font;
  for (const { text } of select.options) if (pen.measureText(text).width + arrow > select.clientWidth) fault("cut off", text);
}

// ---- on other text, by more than the room that a box has above and below its letters ----
pieces.sort((a, b) => a.box.top - b.box.top);
pieces.forEach((a, i) => {
  for (let k = i + 1; k < pieces.length && pieces[k].box.top < a.box.bottom; k++) {
    const b = pieces[k];
    const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const high = Math.min(a.box.bottom, b.box.bottom) - b.box.top;
    if (wide > 0.5 && high > Math.min(3, a.box.height / 5, b.box.height / 5)) fault("overlap", a.text, "on", b.text);
  }
});

// ---- small: below 11 px on a screen, and below 8 pt on paper and in pictures, which may be printed and are asked for
// their size as they are made ----
const POINT = 96 / 72;
for (const { text, parent } of pieces) {
  const picture = parent.closest("svg.pipeplan");
  const unit = picture ? picture.width.baseVal.value / picture.viewBox.baseVal.width : 1;
  const size = parseFloat(style(parent).fontSize) * unit, least = paper || picture ? 8 * POINT : 11;
  if (size < least - 0.01) fault("small", text, `${size.toFixed(1)} px`);
}

// ---- faint: contrast below 4.5 to 1, by the formula of the guidelines for accessible pages ----
const light = (colour) => {
  const [r, g, b] = colour.map((part) => (part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (one, other) => {
  const [low, high] = [light(one), light(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
};
// A colour with the share of it that covers what is below: its own, and that of all that it is part of.
const layer = (text, element, share = 1) => {
  const [r, g, b, a = 1] = (text.match(/[0-9.]+/g) ?? [0, 0, 0, 0]).map(Number);
  for (let around = element; around; around = around.parentElement) share *= style(around).opacity;
  return { colour: [r, g, b], share: a * share };
};
const over = ({ colour, share }, below) => colour.map((part, i) => share * part + (1 - share) * below[i]);
// What an element paints: shapes their fill, or their stroke where they have none; all else its background.
const paint = (element) => {
  const own = style(element);
  if (!(element instanceof SVGGeometryElement || element instanceof SVGUseElement)) return layer(own.backgroundColor, element);
  const filled = layer(own.fill, element, own.fillOpacity);
  return filled.share > 0 && !(element instanceof SVGLineElement) ? filled : layer(own.stroke, element, own.strokeOpacity);
};
// Around letters with a halo lies the halo, unless something is drawn over them.
const haloOf = (text) => {
  const own = style(text);
  const wide = own.stroke !== "none" && own.paintOrder.startsWith("stroke") && parseFloat(own.strokeWidth) >= 3;
  return wide ? layer(own.stroke, text) : null;
};
const behind = (x, y, text, halo) => {
  const layers = [];
  for (const element of document.elementsFromPoint(x, y)) {
    if (element instanceof SVGTextContentElement) {
      if (element === text && halo) layers.push(halo);
    } else layers.push(paint(element));
    if (layers.at(-1)?.share >= 1) break;
  }
  return layers.reduceRight((below, one) => over(one, below), [255, 255, 255]);
};
// Places all over a text, upright or turned by a quarter.
const places = (box) => Array.from({ length: 11 }, (_, k) => {
  const along = (k + 1) / 12, across = [0.35, 0.5, 0.65][k % 3];
  const [x, y] = box.width >= box.height ? [along, across] : [across, along];
  return [box.left + box.width * x, box.top + box.height * y];
});
for (const { text, parent, box, drawn } of pieces) {
  const own = style(parent), halo = drawn ? haloOf(parent) : null;
  const ink = drawn ? layer(own.fill, parent, own.fillOpacity) : layer(own.color, parent);
  const worst = Math.min(...places(box).map(([x, y]) => behind(x, y, parent, halo)).map((ground) => contrast(over(ink, ground), ground)));
  if (worst < 4.5) fault("faint", text, worst.toFixed(2));
}
const dark = !paper && matchMedia("(prefers-color-scheme: dark)").matches;
if (light(behind(1, 1)) < 0.1 !== dark) fault("faint", `the page is not ${dark ? "dark" : "light"}`);
return [...found];
