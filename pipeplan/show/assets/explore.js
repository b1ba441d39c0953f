"use strict";
// The page around `simulatePipeline`: settings are read from the controls, drawn at once, and kept in the address.

const setup = JSON.parse(document.getElementById("setup").textContent);
const numbers = document.querySelector(".numbers"), heard = document.querySelector(".heard");
const refused = document.getElementById("refused"), lesson = document.getElementById("lesson");
const situation = document.getElementById("situation");
const shown = { settings: null, result: null }; // what the page shows, for whoever wants the numbers themselves

const inUnit = (value) => [short(value), setup.timeUnit].filter(Boolean).join(" ");

// ---- settings: from the controls, and into them --------------------------------------------------------

function show(settings) {
  control.slow.max = settings.stages; // before its value, which the browser keeps below it
  for (const [name, value] of Object.entries(settings)) control[name].value = value;
  update();
}

// Equal stages, but for the slow one.
function stagesOf(s) {
  const equal = { forward: s.forward, backward: s.backward, onward: s.transfer, back: s.transfer,
    weights: s.weights * setup.memory.bytes, kept: s.kept * setup.memory.bytes };
  return withSlowStage(Array(s.stages).fill(equal), s.slow, s.factor);
}

function update() {
  control.slow.max = control.stages.value;
  const s = readSettings(), k = s.schedule === "kfkb" ? s.k : 1;
  shown.settings = s;
  shown.result = simulatePipeline(stagesOf(s), s.batches, s.schedule, k);
  for (const output of document.querySelectorAll(".explorer output")) {
    const value = s[output.htmlFor[0]];
    output.textContent = value === 0 && output.dataset.zero || `${short(value)} ${output.dataset.unit}`.trim();
  }
  for (const [name, used] of [["k", s.schedule === "kfkb"], ["factor", s.slow > 0]]) {
    control[name].disabled = !used;
    control[name].closest(".setting").classList.toggle("off", !used);
  }
  tell(s, shown.result);
  draw();
  clearTimeout(update.later);
  update.later = setTimeout(settle, 300); // a slider on its way would flood the address and a screen reader
}

function settle() {
  history.replaceState(null, "", `#${new URLSearchParams({ ...shown.settings, frontier: frontierView() })}`);
  heard.textContent = `${numbers.querySelector(".answer").textContent} ${numbers.querySelector(".verdict").textContent}`;
}

// ---- the address, which anybody may have written --------------------------------------------------------

function readAddress() {
  const text = location.hash.slice(1);
  if (!text) return;
  const given = [...new URLSearchParams(text.slice(0, 1000))], pairs = given.filter(([name]) => name !== "frontier");
  const view = given.filter(([name]) => name === "frontier");
  const fault = view.length > 1 || view.some(([, words]) => !readFrontier(words)) ? "it names no point of the frontier" :
    faultIn(pairs, (input, given) => (input === control.slow ? given.stages : input.max));
  refused.textContent = fault ? `The settings in the address are ignored: ${fault}.` : "";
  if (fault) return;
  leaveSituation();
  show(Object.fromEntries(pairs));
  showFrontier();
}

// ---- the answer in words ----------------------------------------------------------------------------------

// In bytes; a plan may have none.
const limitOf = (s) => (s.limit === undefined ? Infinity : s.limit * setup.memory.bytes);

function tell(s, result) {
  const { bytes, unit } = setup.memory;
  const over = result.devices.flatMap((device, x) => (device.bytes > limitOf(s) ? [x + 1] : []));
  const rate = setup.perSecond ? `${short(setup.perSecond * s.batches / result.iteration)} micro-batches/s` :
    `${inUnit(result.iteration / s.batches)} for each micro-batch`;
  numbers.querySelector(".answer").textContent =
    `Iteration ${inUnit(result.iteration)}, bubble ${percent(result.bubble)}, ${rate}.`;
  const verdict = numbers.querySelector(".verdict"), most = short(Math.max(...result.devices.map((d) => d.bytes)) / bytes);
  const devices = over.length === result.devices.length ? "every device needs" :
    over.length === 1 ? `device ${over[0]} needs` : `${over.length} of ${result.devices.length} devices need`;
  verdict.textContent = over.length ?
    `Out of memory: ${devices} more than ${short(s.limit)} ${unit}; the most is ${most} ${unit}.` :
    s.limit === undefined ? `No device needs more than ${most} ${unit}.` :
    `It fits: no device needs more than ${most} of ${short(s.limit)} ${unit}.`;
  verdict.className = `verdict ${over.length ? "no" : "yes"}`;
}

// ---- pictures: a row for each device, places across in pixels -----------------------------------------------

function drawTimeline(picture, result) {
  const width = picture.getBoundingClientRect().width, span = result.iteration || 1, across = width / span;
  const longest = Math.max(...result.devices[0].passes.map(({ pass }) => String(Math.abs(pass)).length));
  const labelled = CHARACTER_WIDTH * longest + 2, drawn = []; // numbers stand on all bars of a width or on none
  result.devices.forEach((device, x) => {
    const top = ROW_HEIGHT * x;
    drawn.push(shape("text", { x: 0, y: top + 12 }, `device ${x + 1}: busy ${percent(device.busy / span)}`));
    for (const { pass, start, end } of device.passes) {
      const kind = pass > 0 ? "forward" : "backward", label = String(Math.abs(pass)), wide = (end - start) * across;
      const place = { x: start * across, y: top + NAME_HEIGHT, width: wide, height: BAR_HEIGHT, fill: setup.colours[kind].fill };
      drawn.push(markShape(place, `${kind} of micro-batch ${label}, device ${x + 1}: ${short(start)} to ${inUnit(end)}`));
      const middle = { x: (start + end) / 2 * across, y: top + NAME_HEIGHT + 13, "text-anchor": "middle" };
      if (wide > labelled)
        drawn.push(shape("text", { class: `inside ${setup.colours[kind].text === "#ffffff" ? "light" : ""}`, ...middle }, label));
    }
  });
  const bottom = ROW_HEIGHT * result.devices.length;
  for (const tick of roundTicks(span, Math.max(2, width / TICK_WIDTH))) {
    const place = tick * across, anchor = place < 30 ? "start" : place > width - 30 ? "end" : "middle";
    drawn.push(shape("line", { class: "grid", x1: place, x2: place, y1: bottom - 4, y2: bottom + 2 }));
    drawn.push(shape("text", { x: place, y: bottom + 14, "text-anchor": anchor }, short(tick)));
  }
  fill(picture, width, bottom + AXIS_HEIGHT, drawn);
}

function drawMemory(picture, result, limit) {
  const { bytes, unit } = setup.memory, width = picture.getBoundingClientRect().width, limited = limit < Infinity;
  const most = Math.max(limited ? limit : 0, ...result.devices.map((device) => device.bytes)) || 1;
  const across = (width - 2) / most, place = limit * across, head = limited ? NAME_HEIGHT + 4 : 0, drawn = [];
  const anchor = place > width / 2 ? "end" : "start";
  if (limited) drawn.push(shape("text", { class: "limit", x: place, y: 12, "text-anchor": anchor }, `limit ${short(limit / bytes)} ${unit}`));
  result.devices.forEach((device, x) => {
    const top = head + ROW_HEIGHT * x, name = `device ${x + 1}`, over = device.bytes - limit;
    const words = `${short(device.bytes / bytes)} ${unit}${over > 0 ? `, ${short(over / bytes)} over` : ""}`;
    drawn.push(shape("text", { x: 0, y: top + 12 }, `${name}: ${device.inFlight} in flight`));
    drawn.push(shape("text", { class: over > 0 ? "over" : "", x: width, y: top + 12, "text-anchor": "end" }, words));
    let from = 0;
    for (const [term, amount] of [["weights", device.weights], ["activations", device.bytes - device.weights]]) {
      const bar = { x: from * across, y: top + NAME_HEIGHT, width: amount * across, height: 16, fill: setup.colours[term].fill };
      if (amount > 0) drawn.push(markShape(bar, `${name}: ${term} ${short(amount / bytes)} ${unit}`));
      from += amount;
    }
    if (limited) drawn.push(shape("line", { class: "limit", x1: place, x2: place, y1: top + NAME_HEIGHT, y2: top + ROW_HEIGHT - 4 }));
  });
  fill(picture, width, head + ROW_HEIGHT * result.devices.length, drawn);
}

function draw() {
  const [timeline, memory] = document.querySelectorAll(".explorer svg.picture");
  drawTimeline(timeline, shown.result);
  drawMemory(memory, shown.result, limitOf(shown.settings));
}

// ---- what readers do ----------------------------------------------------------------------------------------

// Its sentence speaks of other settings then; the page of a plan has none.
function leaveSituation() {
  if (situation) [situation.value, lesson.textContent] = ["", ""];
}

for (const input of controls) input.addEventListener("input", () => {
  leaveSituation();
  refused.textContent = "";
  update();
});
situation?.addEventListener("change", () => {
  const chosen = setup.situations[situation.value];
  lesson.textContent = chosen?.see ?? "";
  if (chosen) show(chosen.settings);
});
document.querySelector(".explorer .chart input").addEventListener("input", draw);
for (const redraw of [draw, showFrontier]) window.addEventListener("resize", redraw);
window.addEventListener("hashchange", readAddress);
update();
showFrontier();
readAddress();
