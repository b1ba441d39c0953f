"use strict";
// The page around `memoryOf`: settings are read from the controls and kept in the address; bars open into formulas.

const tables = JSON.parse(document.getElementById("tables").textContent);
const numbers = document.querySelector(".numbers"), heard = document.querySelector(".heard"), refused = document.getElementById("refused");
const picture = document.querySelector("svg.picture"), rankChoice = document.getElementById("stage");
const shown = { settings: null, fault: null, ranks: null }; // what the page shows, for whoever wants the numbers themselves
const picked = { rank: null, part: "activations" }; // null: the fullest rank
const USUAL = { model: "llama-3-70b", gpu: "h100-80gb", gpus: "64", framework: "megatron", schedule: "1f1b", optimizer: tables.usualOptimizer };
const UNITS = { embedding: ["the embedding", "embeddings"], dense: ["a layer", "layers"], experts: ["a layer with experts", "layers with experts"],
  prediction: ["a prediction layer", "prediction layers"], head: ["the head", "heads"] };
// What letters of formulas mean, as in `docs/training-memory.md`.
const LETTERS = { t: "tensor degree", c: "context degree", p: "pipeline degree", d: "data-parallel replicas", e: "expert degree",
  t_e: "tensor degree of experts", d_e: "replicas of experts", b: "sequences of a micro-batch", s: "tokens of a sequence",
  S: "tokens of a micro-batch on a context rank", "S′": "the same on one tensor rank between products", h: "hidden size",
  V: "words of the vocabulary", n_p: "learned positions", h_w: "size of the table of words", a: "attention heads", n: "size of a head",
  k: "key-value heads", k_t: "key-value heads of a tensor rank", n_v: "size of a head's values", n_r: "part of a head with positions",
  r_q: "rank of queries", r_kv: "rank of keys and values", f: "inner size of the MLP", E: "experts", κ: "experts for each token",
  f_e: "inner size of an expert", f_s: "inner size of the shared experts" };
const GIB = 2 ** 30;

const gib = (bytes) => `${(bytes / GIB).toFixed(2)} GiB`;
const element = (name, content = [], attributes = {}) => {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...[content].flat());
  return made;
};

// ---- settings --------------------------------------------------------------------------------------------------------

function fillChoices() {
  const lists = { model: Object.keys(tables.models), gpu: Object.keys(tables.gpus), gpus: tables.counts, optimizer: tables.optimizers,
    framework: Object.keys(tables.frameworks), schedule: Object.keys(tables.schedules).filter((name) =>
      Object.values(tables.frameworks).some((own) => own.schedules.includes(name))) };
  for (const [name, list] of Object.entries(lists)) {
    control[name].replaceChildren(...list.map((value) => element("option", nameOf(String(value)), { value })));
    control[name].value = USUAL[name];
  }
  document.querySelector(".legend").append(...Object.values(tables.parts).map(({ words, fill: ink }) => {
    const sign = shape("svg", { width: 12, height: 12, "aria-hidden": true });
    sign.append(shape("rect", { width: 12, height: 12, fill: ink }));
    return element("li", [sign, plainName(words)]);
  }));
}

const plainName = (words) => words.replace(/^the /, "");
const nameOf = (value) => value.replace(" --prediction-layers 0", ", no prediction");

function settingsNow() {
  const read = readSettings(), numbers = ["gpus", "tensor", "context", "expert", "expertTensor", "zero"];
  for (const name of numbers) read[name] = Number(read[name]);
  return { ...read, modules: tables.modules.filter((name) => read[name]) };
}

function show(settings) {
  for (const [name, value] of Object.entries(settings)) {
    if (control[name].type === "checkbox") control[name].checked = value === "1";
    else control[name].value = value;
  }
  update();
}

// What goes together when a reader chooses one thing: a framework has its own ZeRO stages and schedules, a schedule its chunks.
function follow(name) {
  const framework = tables.frameworks[control.framework.value], stages = framework.states[control.optimizer.value];
  if (name === "framework") {
    if (!(control.zero.value in stages)) control.zero.value = framework.usualZero;
    if (!framework.schedules.includes(control.schedule.value)) control.schedule.value = "1f1b";
  }
  if (name === "virtual" && framework.schedules.includes("interleaved-1f1b") && tables.schedules[control.schedule.value].shape !== "v")
    control.schedule.value = Number(control.virtual.value) > 1 ? "interleaved-1f1b" : "1f1b";
  if (name === "schedule" || name === "framework") {
    const { shape: form } = tables.schedules[control.schedule.value], several = Number(control.virtual.value) > 1;
    if (form === "row" || form === "v" || !several) control.virtual.value = form === "row" ? 1 : 2;
  }
}

// Settings that do nothing are hidden, values that the framework lacks cannot be chosen.
function hideUnused(s) {
  const framework = tables.frameworks[s.framework], has = (name, used) => { control[name].closest(".setting").hidden = !used; };
  for (const name of ["expert", "expertTensor"]) has(name, "E" in tables.models[s.model].numbers || s[name] > 1);
  has("layers", s.recompute === "full" && (framework.countedLayers || s.layers));
  document.querySelector(".modules").hidden = s.recompute !== "modules";
  const able = modulesFor(tables, s);
  for (const name of tables.modules) control[name].disabled = !able.includes(name) && !control[name].checked;
  for (const option of control.zero.options) option.disabled = !(option.value in framework.states[s.optimizer]);
  for (const option of control.schedule.options) option.disabled = !framework.schedules.includes(option.value);
}

function update() {
  const s = settingsNow();
  shown.settings = s;
  shown.fault = controls.some((input) => !input.checkValidity()) ? "Give whole numbers of at least 1." : faultOf(tables, s);
  shown.ranks = shown.fault ? null : memoryOf(tables, s);
  hideUnused(s);
  for (const output of document.querySelectorAll(".settings output")) output.textContent = s[output.htmlFor[0]] || "all";
  tell(s);
  draw();
  explain();
  document.querySelector(".command").textContent = shown.fault ? "" : commandOf(tables, s);
  clearTimeout(update.later);
  update.later = setTimeout(settle, 300); // a slider on its way would flood the address and a screen reader
}

function settle() {
  history.replaceState(null, "", `#${new URLSearchParams(readSettings())}`);
  heard.textContent = [...numbers.children].map((line) => line.textContent).join(" ");
}

function readAddress() {
  const text = location.hash.slice(1);
  if (!text) return;
  const pairs = [...new URLSearchParams(text.slice(0, 1000))], fault = faultIn(pairs);
  refused.textContent = fault ? `The settings in the address are ignored: ${fault}.` : "";
  if (!fault) show(Object.fromEntries(pairs));
}

// ---- the answer ------------------------------------------------------------------------------------------------------

const fullestRank = () => shown.ranks.reduce((most, own) => (own.bytes > most.bytes ? own : most));
const rankShown = () => shown.ranks[Math.min(picked.rank ?? fullestRank().rank, shown.ranks.length - 1)];

function tell(s) {
  const [answer, verdict] = numbers.children;
  for (const name of ["formulas", "command"]) document.querySelector(`[data-part=${name}]`).hidden = shown.fault;
  if (shown.fault) {
    answer.textContent = "These settings do not go together.";
    [verdict.textContent, verdict.className] = [shown.fault, "verdict no"];
    return;
  }
  const most = fullestRank(), { d, b } = lettersOf(tables, s), limit = tables.gpus[s.gpu].bytes, fit = fitOf(tables, s, most.bytes);
  const error = percent(tables.gpus[s.gpu].errors[s.framework].more), left = limit - most.bytes, batches = s.batch / (d * b);
  answer.textContent = `The fullest GPU (stage ${most.rank}) needs ${gib(most.bytes)} of ${gib(limit)}.`;
  const words = { yes: `It fits, with ${gib(left)} to spare`, no: `Out of memory: ${gib(-left)} too much`,
    maybe: left >= 0 ? `It may fit: ${gib(left)} are left, and predictions may be wrong by ${error}` : `It may fit: ${gib(-left)} are too much, and predictions may be wrong by ${error}` };
  const counted = (count, noun) => `${count} ${noun}${count === 1 ? "" : noun.endsWith("ch") ? "es" : "s"}`;
  verdict.textContent = `${words[fit]}. ${counted(d, "replica")}, ${counted(batches, "micro-batch")} for each.`;
  verdict.className = `verdict ${fit}`;
}

// ---- bars --------------------------------------------------------------------------------------------------------------

function draw() {
  const width = picture.getBoundingClientRect().width, drawn = [];
  if (shown.fault) return fill(picture, width, picture.getAttribute("height"), drawn);
  const limit = tables.gpus[shown.settings.gpu].bytes, left = 60, right = 78, head = 20, chosen = rankShown().rank;
  const high = shown.ranks.length > 16 ? 20 : 30, across = (width - left - right) / Math.max(limit, fullestRank().bytes), bottom = head + high * shown.ranks.length;
  const place = left + limit * across, anchor = place > width / 2 ? "end" : "start";
  drawn.push(shape("text", { class: "limit", x: place, y: 12, "text-anchor": anchor }, `limit ${gib(limit)}`));
  for (const tick of roundTicks((width - left - right) / across / GIB, Math.max(2, (width - left - right) / TICK_WIDTH))) {
    const x = left + tick * GIB * across;
    drawn.push(shape("line", { class: "grid", x1: x, x2: x, y1: head, y2: bottom + 4 }));
    drawn.push(shape("text", { x, y: bottom + 17, "text-anchor": "middle" }, short(tick)));
  }
  for (const { rank, parts, bytes } of shown.ranks) {
    const top = head + high * rank, over = bytes > limit ? "over" : "", bold = rank === chosen ? " chosen" : "";
    drawn.push(shape("text", { class: bold, x: 0, y: top + high / 2 + 4 }, `stage ${rank}`));
    drawn.push(shape("text", { class: over + bold, x: width, y: top + high / 2 + 4, "text-anchor": "end" }, gib(bytes)));
    let from = left;
    for (const [part, amount] of Object.entries(parts)) {
      const { words, fill: ink } = tables.parts[part], wide = amount * across;
      const bar = markShape({ x: from, y: top + 2, width: wide, height: high - 4, fill: ink, role: "button" }, `stage ${rank}, ${words}: ${gib(amount)}, ${percent(amount / bytes)}`);
      bar.addEventListener("click", () => pick(rank, part));
      bar.addEventListener("keydown", (event) => event.key === "Enter" && pick(rank, part));
      if (amount > 0) drawn.push(bar);
      from += wide;
    }
  }
  drawn.push(shape("line", { class: "limit", x1: place, x2: place, y1: head - 4, y2: bottom }));
  fill(picture, width, bottom + AXIS_HEIGHT + 4, drawn);
}

function pick(rank, part) {
  const marks = [...picture.querySelectorAll(".mark")], at = marks.indexOf(document.activeElement);
  Object.assign(picked, { rank, part });
  draw();
  explain();
  if (at >= 0) picture.querySelectorAll(".mark")[at].focus();
}

// ---- formulas in letters, in numbers, and their values --------------------------------------------------------------------

const inNumbers = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 4 });

// A formula as text, by what it says of a letter; of a condition the branch that holds, and no summand that is 0.
function written(formula, letters, isNumeric, outer = 0) {
  const inside = (part, strength) => written(part, letters, isNumeric, strength), value = (part) => valueOf(part, letters);
  const within = (text, strength) => (strength < outer ? `(${text})` : text);
  if (typeof formula === "number") return inNumbers(formula);
  if (typeof formula === "string") return isNumeric ? inNumbers(letters[formula]) : formula;
  const [sign, ...parts] = formula;
  if (sign === "if") return inside(parts[value(parts[0]) ? 1 : 2], outer);
  if (sign === "max") return `max(${parts.map((part) => inside(part, 0)).join(", ")})`;
  if (sign === "/") return within(`${inside(parts[0], 2)} / ${inside(parts[1], 3)}`, 2);
  if (sign === "*") return within(parts.map((part, i) => inside(part, part[0] === "/" && i === parts.length - 1 ? 2 : 2.5)).join(isNumeric ? " × " : " "), 2.5 > outer ? 2.5 : 2);
  const summands = parts.filter((part) => value(part) !== 0);
  if (summands.length < 2) return inside(summands[0] ?? 0, outer);
  return within(summands.map((part) => inside(part, 1)).join(sign === "+" ? " + " : " − "), 1);
}

// Letters with what stands low behind them.
function lowered(text) {
  return text.split(/(_\w+)/).map((piece) => (piece.startsWith("_") ? element("sub", piece.slice(1)) : piece));
}

// A line of words, and below it the formula in letters, in numbers, and its value.
function line(title, formula, letters, unit = gib) {
  const value = unit(valueOf(formula, letters)), inLetters = written(formula, letters, false), inFigures = written(formula, letters, true);
  const steps = [inLetters, inFigures].filter((text, i, all) => text !== value && all.indexOf(text) === i);
  const shownSteps = steps.map((text, i) => element("span", [i ? "= " : "", ...lowered(text)], { class: i ? "figures" : "" }));
  const result = element("strong", `${steps.length ? "= " : ""}${value}`);
  return element("p", [element("span", lowered(title)), ...shownSteps, result], { class: "line", "data-letters": inLetters });
}

// The sum of what tensors take; those that differ by a factor alone are one summand.
function bytesOf(some) {
  const sums = new Map();
  for (const bytes of some.flatMap((own) => (own.bytes[0] === "+" ? own.bytes.slice(1) : [own.bytes]))) {
    const [factor, rest] = bytes[0] === "*" && typeof bytes[1] === "number" ? [bytes[1], bytes.slice(2)] : [1, [bytes]];
    const key = JSON.stringify(rest);
    sums.set(key, { factor: (sums.get(key)?.factor ?? 0) + factor, rest });
  }
  return ["+", ...[...sums.values()].map(({ factor, rest }) => (factor === 1 && rest.length === 1 ? rest[0] : ["*", factor, ...rest]))];
}

const coefficient = ({ whole, shared }, shards) => ["+", whole, shared ? ["/", shared, shards] : 0];
const count = (value) => inNumbers(value);

function standingLines(name, own, letters) {
  const { settings: s } = shown, state = tables.frameworks[s.framework].states[s.optimizer][s.zero][name];
  const all = { ...letters, P: own.parameters.usual, P_E: own.parameters.experts };
  const lines = [line("bytes of each parameter × parameters of the stage:", ["+", ["*", coefficient(state, ["*", "c", "d"]), "P"],
    ["*", coefficient(state, "d_e"), "P_E"]], all)];
  if (name !== "weights") return lines;
  const parameters = tables.models[s.model].parameters;
  for (const [letter, field] of [["P", "usual"], ["P_E", "experts"]])
    for (const [type, number] of Object.entries(own.counts)) {
      const formula = tables.pool[parameters[type]][field];
      if (valueOf(formula, letters)) lines.push(line(`in ${letter}: ${number === 1 ? UNITS[type][0] : `each of ${number} ${UNITS[type][1]}`}:`, formula, letters, count));
    }
  if (own.parameters.copied) lines.push(line("in P: a copy of the table of words, whose embedding is on another stage:", tables.models[s.model].table, letters, count));
  return lines;
}

function activationLines(own, letters) {
  const { most, stashes, chunks } = own, all = { ...letters }, terms = [], lines = [];
  chunks.forEach((chunk, i) => {
    Object.assign(all, { [`A_${chunk}`]: stashes[i].bytes, [`W_${chunk}`]: stashes[i].forWeights, [`R_${chunk}`]: stashes[i].most.kept });
    if (most.flying[i]) terms.push(["*", most.flying[i], `A_${chunk}`]);
    if (most.waiting[i]) terms.push(["*", most.waiting[i], `W_${chunk}`]);
    if (most.running === i) terms.push(`R_${chunk}`);
  });
  lines.push(line("micro-batches in flight × what each leaves:", ["+", ...terms], all));
  chunks.forEach((chunk, i) => {
    if (most.flying[i]) for (const { name, type, count: number, own: kept } of stashes[i].groups)
      if (kept.stash) lines.push(line(`in A_${chunk}: ${number === 1 ? UNITS[type][0] : `each of ${number} ${UNITS[type][1]}`}${name.slice(type.length)}:`, bytesOf(kept.left), letters));
    if (most.waiting[i]) lines.push(line(`W_${chunk}: the part of A_${chunk} that waits for the gradients of weights:`, `W_${chunk}`, all));
    if (most.running === i) {
      const { before, moment, type, place, units } = stashes[i].most;
      lines.push(line(`R_${chunk}: what is left of A_${chunk} while unit ${place + 1} of ${units}, ${UNITS[type][0]}, runs ${moment.during} backward:`,
        ["+", before, ...bytesOf(moment.kept).slice(1)], letters));
    }
  });
  return lines;
}

function transientLines(own, letters) {
  const { most, always, parameters } = own, lines = [];
  if (most.running >= 0) {
    const { moment, type } = own.stashes[most.running].most;
    lines.push(line(`gradients while ${UNITS[type][0]} runs ${moment.during} backward:`, moment.top, letters));
    if (moment.again.length) lines.push(line("computed again:", bytesOf(moment.again), letters));
  }
  lines.push(line("workspace of libraries:", always.workspace, letters));
  if (always.received) lines.push(line("what the stage before sent:", ["*", tables.half, "S′", "h"], letters));
  if (always.cached) lines.push(line("one buffer for each shape of gradients:", ["*", tables.half, ["+", ...parameters.shapes.map((shape) => ["*", ...shape])]], letters));
  if (always.gathered) lines.push(line("gathered weights of the largest units:", ["*", always.gathered / parameters.largest, parameters.largest], letters));
  return lines;
}

function explain() {
  if (shown.fault) return;
  const own = rankShown(), letters = lettersOf(tables, shown.settings);
  rankChoice.replaceChildren(...shown.ranks.map(({ rank, bytes }) => element("option", `${rank}: ${gib(bytes)}`, { value: rank })));
  rankChoice.value = own.rank;
  const lines = { activations: () => activationLines(own, letters), transient: () => transientLines(own, letters),
    reserve: () => [line("for the driver and for buffers of communication, as --reserve says:", tables.reserve, letters)] };
  const folded = Object.entries(own.parts).map(([part, bytes]) => {
    const sign = shape("svg", { width: 12, height: 12, "aria-hidden": true });
    sign.append(shape("rect", { width: 12, height: 12, fill: tables.parts[part].fill }));
    const summary = element("summary", [sign, `${plainName(tables.parts[part].words)}: ${gib(bytes)}, ${percent(bytes / own.bytes)}`]);
    return element("details", [summary, ...(lines[part] ?? (() => standingLines(part, own, letters)))()], { "data-part": part, ...(part === picked.part ? { open: "" } : {}) });
  });
  document.querySelector(".formulas").replaceChildren(...folded);
  const used = new Set([...document.querySelectorAll("[data-letters]")].flatMap((own) => own.dataset.letters.match(/[\p{L}′]+(_\p{L}+)?/gu) ?? []));
  for (const [letter, formula] of tables.derived.toReversed()) if (used.has(letter)) for (const name of JSON.stringify(formula).match(/[\p{L}′]+(_\p{L}+)?/gu)) used.add(name);
  const known = Object.entries(LETTERS).filter(([letter]) => used.has(letter) && letter in letters);
  document.querySelector(".letters").replaceChildren(...known.flatMap(([letter, words], i) => [i ? ", " : "Letters: ", ...lowered(letter), ` ${words} (${inNumbers(letters[letter])})`]), ".");
}

// ---- what readers do ----------------------------------------------------------------------------------------------------

document.querySelector(".explorer").hidden = false; // without this script there is nothing to set
fillChoices();
for (const input of controls) input.addEventListener("input", () => {
  refused.textContent = "";
  follow(input.dataset.setting);
  update();
});
rankChoice.addEventListener("change", () => pick(Number(rankChoice.value), picked.part));
window.addEventListener("resize", draw);
window.addEventListener("hashchange", readAddress);
update();
readAddress();
