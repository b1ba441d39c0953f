"use strict";
// Time against memory: every named rule beside the proven frontier, for the pipelines of a grid that was planned ahead.
// A point of the grid has `rules` and `best`; a schedule has, for each device, its passes in order: the time that the
// device waits before one, its letter (F, I, W; of a second chunk on the device G, J, X), and the micro-batch from a.

const grid = JSON.parse(document.getElementById("grid").textContent);
const choice = { size: document.getElementById("size"), passes: document.getElementById("passes"),
  shape: document.getElementById("shape"), held: document.getElementById("held") };
const picked = { kind: "best", name: "", index: 0 }; // which schedule is drawn: the best within the memory, or a rule
const NAMES = { "gpipe": "GPipe", "1f1b": "1F1B", "zb-h1": "ZB-H1", "zb-h2": "ZB-H2", "zb-greedy": "greedy zero bubble",
  "interleaved-1f1b": "interleaved 1F1B", "zb-v": "ZB-V", "dualpipe-v": "DualPipe-V" };
const SHAPES = { one: "one stage on a device", loop: "two chunks, in a loop", v: "two chunks, in a V" };
const PASS_NAMES = { F: "forward", I: "backward for inputs", W: "backward for weights" };
const INKS = { F: "#4297d3", I: "#cc5229", W: "#8fb03e", one: "#0b7d6b", loop: "#8a5fc9", v: "#b8860b" };
const CHART = { height: 300, left: 46, bottom: 40, top: 12, right: 14 };

const activations = (halves) => `${short(halves / 2)} micro-batch${halves === 2 ? "" : "es"}`;
const workOf = (point) => point.batches * point.passes.reduce((sum, time) => sum + time, 0);
const idleOf = (point, schedule) => 1 - workOf(point) / schedule.time;

// ---- the grid -----------------------------------------------------------------------------------------------------

function pointsHere() {
  return grid.filter((own) => `${own.stages}x${own.batches}` === choice.size.value && own.passes.join("/") === choice.passes.value);
}

// The best known schedule within a memory; the grid has a line only where more memory makes a difference.
function bestWithin(point, halves) {
  return point.best.findLastIndex((own) => own.limit <= halves);
}

function schedulePicked(point) {
  if (picked.kind === "rule") return point.rules.find((own) => own.name === picked.name) ?? null;
  return point.best[bestWithin(point, Number(choice.held.value))] ?? null;
}

// ---- a schedule, pass by pass -------------------------------------------------------------------------------------

function passesOf(point, text) {
  const chunks = point.shape === "one" ? 1 : 2, passes = [];
  let now = 0;
  for (const [, wait, letter, batch] of text.matchAll(/(\d*)([FIWGJX])([a-z])/g)) {
    const chunk = "GJX".includes(letter) ? 1 : 0, kind = "FIW"["FIWGJX".indexOf(letter) % 3];
    const start = now + Number(wait || 0);
    now = start + point.passes["FIW".indexOf(kind)] / chunks;
    passes.push({ kind, chunk, batch: batch.charCodeAt(0) - 96, start, end: now });
  }
  return passes;
}

// What a device holds over time, as [time, halves] at each change: F takes at its start, I and W give back at their end.
function heldOver(point, passes) {
  const each = point.shape === "one" ? 1 : 0.5;
  const changes = passes.map(({ kind, start, end }) => (kind === "F" ? [start, 2 * each] : [end, -each]));
  changes.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let held = 0;
  return changes.map(([time, change]) => [time, held += change]);
}

// ---- pictures -----------------------------------------------------------------------------------------------------

function drawScatter(picture, points, chosen) {
  const width = picture.getBoundingClientRect().width, drawn = [], rules = points.flatMap((own) => own.rules);
  const most = 1.05 * Math.max(...points.flatMap((own) => [...own.rules, ...own.best]).map((own) => own.memory));
  const slowest = 1.4 * Math.max(...rules.map((own) => own.time)); // with very little memory all is slower still
  const seen = (point) => point.best.filter((own) => own.time <= slowest);
  const x = (halves) => CHART.left + halves / most * (width - CHART.left - CHART.right);
  const y = (time) => CHART.height - CHART.bottom - time / slowest * (CHART.height - CHART.bottom - CHART.top);
  for (const tick of roundTicks(slowest, 5)) {
    drawn.push(shape("line", { class: "grid", x1: CHART.left, x2: width - CHART.right, y1: y(tick), y2: y(tick) }));
    drawn.push(shape("text", { x: CHART.left - 6, y: y(tick) + 4, "text-anchor": "end" }, short(tick)));
  }
  for (const tick of roundTicks(most / 2, Math.max(2, width / TICK_WIDTH)))
    drawn.push(shape("text", { x: x(2 * tick), y: CHART.height - CHART.bottom + 16, "text-anchor": "middle" }, short(tick)));
  drawn.push(shape("text", { class: "title", x: width - CHART.right, y: CHART.height - 6, "text-anchor": "end" },
    "memory of the fullest device, in micro-batches"));
  for (const point of points) {
    const stairs = (value) => seen(point).map((own, i) =>
      `${i ? "H" : "M"}${x(own.limit)}${i ? "V" : ","}${y(own[value])}`).join("") + `H${width - CHART.right}`;
    const ink = INKS[point.shape], open = seen(point).some((own) => own.bound < own.time);
    drawn.push(shape("path", { class: "curve", d: stairs("time"), stroke: ink, "stroke-width": 2 }));
    if (open) drawn.push(shape("path", { class: "curve", d: stairs("bound"), stroke: ink, "stroke-dasharray": "2 4" }));
  }
  const marks = points.flatMap((point) => [
    ...seen(point).map((own) => ({ point, own, kind: "best", radius: 4, fill: INKS[point.shape] })),
    ...point.rules.map((own) => ({ point, own, kind: "rule", radius: 6, fill: "var(--ground)" }))]);
  for (const { point, own, kind, radius, fill } of marks) {
    const title = `${nameOf(own)}, ${SHAPES[point.shape]}: ${activations(own.memory)}, time ${short(own.time)}`;
    const mark = shape("circle", { class: "mark", role: "img", "aria-label": title, tabindex: -1, cx: x(own.memory),
      cy: y(own.time), r: own === chosen ? radius + 3 : radius, style: `fill: ${fill}; stroke: ${kind === "best" ? "var(--ground)" : INKS[point.shape]}; stroke-width: ${kind === "best" ? 1 : 2.5}` });
    mark.append(shape("title", {}, title));
    mark.addEventListener("click", () => pick(point, own, kind));
    mark.addEventListener("keydown", (event) => event.key === "Enter" && pick(point, own, kind));
    drawn.push(mark);
  }
  drawn.push(...labels(marks.map(({ own, kind }) => ({ own, kind, x: x(own.memory), y: y(own.time) })), width));
  fill(picture, width, CHART.height, drawn);
}

// The names of rules, each beside its mark where it covers no other mark or name; the table has those without a place.
function labels(marks, width) {
  const taken = marks.map((mark) => ({ left: mark.x - 7, right: mark.x + 7, top: mark.y - 7, bottom: mark.y + 7 })), drawn = [];
  for (const { own, kind, x, y } of marks) {
    if (kind !== "rule") continue;
    const name = nameOf(own), wide = CHARACTER_WIDTH * name.length;
    for (const [left, middle] of [[x + 9, y], [x - 9 - wide, y], [x - wide / 2, y - 16], [x - wide / 2, y + 16], [x + 6, y - 14], [x + 6, y + 14]]) {
      const box = { left, right: left + wide, top: middle - 7, bottom: middle + 7 };
      const free = left > CHART.left && box.right < width && box.bottom < CHART.height - CHART.bottom && taken.every((other) =>
        box.right < other.left || box.left > other.right || box.bottom < other.top || box.top > other.bottom);
      if (!free) continue;
      taken.push(box);
      drawn.push(shape("text", { class: "value", x: left, y: middle + 4 }, name));
      break;
    }
  }
  return drawn;
}

function drawPasses(picture, point, schedule, ghost) {
  const rows = schedule.passes.map((text) => passesOf(point, text)), width = picture.getBoundingClientRect().width;
  const behind = ghost.passes.map((text) => passesOf(point, text)); // on the same clock, one stage on a device
  const end = Math.max(...[...rows, ...behind].map((passes) => passes.at(-1).end)), across = width / end, drawn = [];
  rows.forEach((passes, device) => {
    const top = ROW_HEIGHT * device;
    drawn.push(shape("text", { x: 0, y: top + 12 }, `device ${device}`));
    const last = behind[device].at(-1).end * across;
    if (schedule !== ghost) drawn.push(shape("rect", { class: "ghost", x: behind[device][0].start * across,
      y: top + NAME_HEIGHT + BAR_HEIGHT, width: last - behind[device][0].start * across, height: 3 }));
    for (const { kind, chunk, batch, start, end: stop } of passes) {
      const wide = (stop - start) * across, place = { x: start * across, y: top + NAME_HEIGHT, width: wide, height: BAR_HEIGHT, fill: INKS[kind] };
      const part = point.shape === "one" ? "" : `, chunk ${chunk}`;
      drawn.push(markShape(place, `${PASS_NAMES[kind]} of micro-batch ${batch}${part}, device ${device}: ${short(start)} to ${short(stop)}`));
      if (wide > CHARACTER_WIDTH * String(point.batches).length + 2)
        drawn.push(shape("text", { class: "inside", x: (start + stop) / 2 * across, y: top + NAME_HEIGHT + 13, "text-anchor": "middle" }, batch));
    }
  });
  fill(picture, width, ROW_HEIGHT * rows.length, drawn);
  return { end, rows };
}

function drawHeld(picture, point, rows, end, most) {
  const width = picture.getBoundingClientRect().width, across = width / end, tall = ROW_HEIGHT + 16, drawn = [];
  const high = tall - NAME_HEIGHT - 4;
  rows.forEach((passes, device) => {
    const bottom = tall * (device + 1) - 2, curve = heldOver(point, passes), peak = Math.max(...curve.map(([, held]) => held));
    const path = curve.map(([time, held]) => `H${time * across}V${bottom - held / most * high}`).join("");
    drawn.push(shape("text", { x: 0, y: tall * device + 12 }, `device ${device}: at most ${activations(peak)}`));
    drawn.push(shape("path", { d: `M0,${bottom}${path}H${end * across}V${bottom}Z`, fill: setup.colours.activations.fill }));
  });
  fill(picture, width, tall * rows.length, drawn);
}

// ---- words --------------------------------------------------------------------------------------------------------

const nameOf = (own) => NAMES[own.name] ?? "The best schedule";

// What is worth seeing first: 1F1B, what divided backward passes save in the same memory, and what a proof adds.
function tellDrama(point) {
  const rule = (name) => point.rules.find((own) => own.name === name), plain = rule("1f1b"), more = rule("zb-h2");
  const equal = point.best[bestWithin(point, plain.memory)], best = more && point.best[bestWithin(point, more.memory)];
  const sure = (own) => (own.bound < own.time ? "the best that is known" : "no schedule is faster");
  document.querySelector(".drama").textContent = [
    `1F1B takes ${short(plain.time)} and holds ${activations(plain.memory)}.`,
    `With divided backward passes ${short(equal.time)} is possible in the same memory: ${sure(equal)}.`,
    best && best.time < equal.time ? `With memory for ${activations(more.memory)}, ZB-H2 takes ${short(more.time)} and the best schedule ${short(best.time)}: ${sure(best)}.` : ""].join(" ");
}

function tellPoint(point, schedule) {
  const words = [`${nameOf(schedule)} takes ${short(schedule.time)} and holds at most ${activations(schedule.memory)}; devices idle ${percent(idleOf(point, schedule))} of it.`];
  if (schedule.bound !== undefined) {
    words.push(schedule.bound < schedule.time ?
      `Not proven: within this memory no schedule takes less than ${short(schedule.bound)}.` :
      `Proven by ${schedule.name}: within ${activations(schedule.limit)} no schedule is faster.`);
    const held = Number(choice.held.value);
    if (held > schedule.limit) words.push(`Memory for ${activations(held)} buys nothing more until the next step of the line.`);
  } else {
    const best = point.best[bestWithin(point, schedule.memory)];
    const saved = best && 1 - best.time / schedule.time;
    if (best) words.push(saved > 0 ? `The best schedule in the same memory takes ${short(best.time)}, which is ${percent(saved)} less.` :
      best.bound < best.time ? "No faster schedule in the same memory is known." : "No schedule in the same memory is faster.");
  }
  document.querySelector(".point").textContent = words.join(" ");
}

function listRules(points) {
  const rows = points.flatMap((point) => point.rules.map((own) => {
    const row = document.createElement("tr"), button = document.createElement("button");
    button.type = "button";
    button.textContent = nameOf(own);
    button.addEventListener("click", () => pick(point, own, "rule"));
    const best = point.best[bestWithin(point, own.memory)];
    const cells = [SHAPES[point.shape], short(own.memory / 2), short(own.time), percent(idleOf(point, own)), best ? short(best.time) : ""];
    row.append(document.createElement("td"), ...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
    row.firstChild.append(button);
    [...row.children].forEach((cell, i) => { cell.dataset.label = document.querySelectorAll(".rules th")[i].textContent; });
    return row;
  }));
  document.querySelector(".rules tbody").replaceChildren(...rows);
}

// ---- what readers do ----------------------------------------------------------------------------------------------

function pick(point, own, kind) {
  choice.shape.value = point.shape;
  Object.assign(picked, { kind, name: own.name });
  if (kind === "best") choice.held.value = own.limit;
  showFrontier();
  settle();
}

function showFrontier() {
  const points = pointsHere();
  for (const option of choice.shape.options) option.disabled = !points.some((own) => own.shape === option.value);
  if (!points.some((own) => own.shape === choice.shape.value)) choice.shape.value = points[0].shape;
  const point = points.find((own) => own.shape === choice.shape.value), plain = points.find((own) => own.shape === "one");
  choice.held.min = point.best[0].limit;
  choice.held.max = Math.max(...point.rules.map((own) => own.memory), point.best.at(-1).limit);
  document.querySelector("output[for=held]").textContent = activations(Number(choice.held.value));
  const schedule = schedulePicked(point) ?? point.best[bestWithin(point, Number(choice.held.value))];
  const [scatter, timeline, memory] = document.querySelectorAll(".frontier svg.picture");
  drawScatter(scatter, points, schedule);
  const { end, rows } = drawPasses(timeline, point, schedule, plain.rules.find((own) => own.name === "1f1b"));
  drawHeld(memory, point, rows, end, Math.max(...points.flatMap((own) => own.rules.map((rule) => rule.memory))));
  tellDrama(plain);
  tellPoint(point, schedule);
  listRules(points);
}

// The part of the address that is about the frontier, and back.
function frontierView() {
  return [choice.size.value, choice.passes.value, choice.shape.value, choice.held.value, picked.kind === "rule" ? picked.name : "best"].join(",");
}

function readFrontier(text) {
  const [size, passes, form, held, name] = text.split(","), has = (select, value) => [...select.options].some((own) => own.value === value);
  if (!has(choice.size, size) || !has(choice.passes, passes) || !has(choice.shape, form) || !/^\d{1,3}$/.test(held ?? "")) return false;
  [choice.size.value, choice.passes.value, choice.shape.value] = [size, passes, form];
  Object.assign(picked, { kind: name in NAMES ? "rule" : "best", name });
  choice.held.max = 99; // until the limits of this pipeline are set
  choice.held.value = held;
  return true;
}

for (const select of [choice.size, choice.passes, choice.shape]) select.addEventListener("change", () => { showFrontier(); settle(); });
choice.held.addEventListener("input", () => { picked.kind = "best"; showFrontier(); settle(); });
