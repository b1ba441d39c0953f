"use strict";
// What each pipeline rank of a training holds at its fullest moment, as `pipeplan.instances.training.referee` counts it.
// `tables` (`memory_page.py`) has the facts, and formulas that were read off the Python code. What a reader chose: model,
// framework, optimizer, gpu, schedule, recompute (none, full or modules) and modules by name; gpus, sequence, batch,
// tensor, context, pipeline, virtual, expert, expertTensor, microBatch, zero and layers (0: all) as numbers.

// ---- formulas: a number, a letter, or a list of a sign and formulas ---------------------------------------------------

const SIGNS = {
  "+": (...parts) => parts.reduce((sum, part) => sum + part, 0),
  "*": (...parts) => parts.reduce((product, part) => product * part, 1),
  "-": (a, b) => a - b,
  "/": (a, b) => a / b,
  "//": (a, b) => Math.floor(a / b),
  "%": (a, b) => a % b,
  "max": Math.max,
  ">": (a, b) => a > b,
  "<=": (a, b) => a <= b,
  "==": (a, b) => a === b,
};

function valueOf(formula, letters) {
  if (!Array.isArray(formula)) return typeof formula === "string" ? letters[formula] : formula;
  const [sign, ...parts] = formula;
  if (sign === "text") return parts[0];
  if (sign === "if") return valueOf(parts[valueOf(parts[0], letters) ? 1 : 2], letters);
  return SIGNS[sign](...parts.map((part) => valueOf(part, letters)));
}

// ---- the choice -------------------------------------------------------------------------------------------------------

function lettersOf(tables, s) {
  const apart = s.tensor * s.context * s.pipeline;
  const letters = { ...tables.models[s.model].numbers, t: s.tensor, c: s.context, p: s.pipeline, v: s.virtual, d: s.gpus / apart, e: s.expert,
    t_e: s.expertTensor, b: s.microBatch, s: s.sequence, B: s.batch, z: s.zero, precision: tables.gpus[s.gpu].precision };
  for (const [letter, formula] of tables.derived) letters[letter] = valueOf(formula, letters);
  letters.d_e = Math.max(1, Math.floor(s.tensor * s.context * letters.d / (s.expert * s.expertTensor)));
  return letters;
}

// Why no framework could run this choice; null: the framework can.
function faultOf(tables, s) {
  const framework = tables.frameworks[s.framework], rule = tables.schedules[s.schedule], letters = lettersOf(tables, s);
  const { t, c, p, v, d, b } = letters, by = tables.models[s.model].by[s.framework];
  if (!Number.isInteger(d)) return `${t} × ${c} × ${p} ranks do not divide ${s.gpus} GPUs; choose tensor, context and pipeline degrees whose product does.`;
  if (t * c * d % (s.expert * s.expertTensor)) return `Experts are divided among ${s.expert} × ${s.expertTensor} ranks, which do not divide the ${t * c * d} ranks of a stage; choose other expert degrees.`;
  if (s.batch % (d * b)) return `${d} replicas with micro-batches of ${b} do not divide ${s.batch} sequences; choose another batch or micro-batch.`;
  if (!(s.zero in framework.states[s.optimizer])) return `${s.framework} has no ZeRO stage ${s.zero}; choose ${Object.keys(framework.states[s.optimizer]).join(" or ")}.`;
  if (!(s.schedule in by.rules)) return `${s.framework} has no schedule ${s.schedule}; choose ${framework.schedules.join(" or ")}.`;
  if (rule.shape === "v" && v !== 2) return `${s.schedule} has two chunks on each rank; choose 2 chunks.`;
  if (rule.shape !== "v" && v > 1 !== (rule.shape === "loop")) return `${s.schedule} has ${rule.shape === "loop" ? "several chunks" : "one chunk"} on each rank; choose another schedule or number of chunks.`;
  if (!layoutOf(tables, s)) return `${s.framework} has no layout of ${s.model} in ${p} × ${v} chunks; choose other degrees.`;
  for (const [kept, sentence] of tables.pool[by.rules[s.schedule]])
    if (!valueOf(kept, letters)) return filledIn(tables, s, sentence);
  if (wordOf(s).length && rule.divided) return `${s.schedule} divides backward passes, which recomputation does not; recompute nothing.`;
  if (s.recompute === "full" && s.layers && !framework.countedLayers) return `${s.framework} recomputes all layers of a chunk, not the first ${s.layers}; choose 0.`;
  const able = modulesFor(tables, s), wrong = s.recompute === "modules" && s.modules.find((name) => !able.includes(name));
  return wrong ? `${s.framework} cannot recompute ${wrong} of ${s.model} by itself; choose other modules.` : null;
}

function filledIn(tables, s, sentence) {
  const { a, k } = tables.models[s.model].numbers, { precision } = tables.gpus[s.gpu];
  const words = { framework: s.framework, tensor: s.tensor, heads: `${a} heads`, key_value_heads: `${k} key-value heads`, precision,
    precisions: tables.frameworks[s.framework].precisions };
  return sentence.replace(/\{(\w+)\}/g, (_, name) => words[name]);
}

// Modules that can be recomputed by themselves: those of the framework and the model that no chosen one contains.
function modulesFor(tables, s) {
  const inside = s.modules.flatMap((name) => tables.inside[name] ?? []);
  return tables.modules.filter((name) => [tables.frameworks[s.framework], tables.models[s.model]].every((own) => own.modules.includes(name)) && !inside.includes(name));
}

const wordOf = (s) => (s.recompute === "full" ? ["full"] : s.recompute === "modules" ? s.modules : []);

// Units of each chunk; null: there is no such layout.
function layoutOf(tables, s) {
  const { units, by } = tables.models[s.model], chunks = s.pipeline * s.virtual, all = units.reduce((sum, [, count]) => sum + count, 0);
  if (chunks > all) return null;
  const other = tables.pool[by[s.framework].layouts][chunks];
  if (other !== undefined) return other && other.split("/").map(Number);
  return Array.from({ length: chunks }, (_, i) => Math.floor(all / chunks) + (i < all % chunks));
}

// The command that judges the same choice.
function commandOf(tables, s) {
  const words = [`plan configure ${s.model} --devices ${s.gpus}x${s.gpu} --sequence ${s.sequence} --batch ${s.batch}`];
  if (s.framework !== "megatron") words.push(`--framework ${s.framework}`);
  if (s.optimizer !== tables.usualOptimizer) words.push(`--optimizer ${s.optimizer}`);
  if (tables.gpus[s.gpu].precision !== "bf16") words.push(`--precision ${tables.gpus[s.gpu].precision}`);
  const keys = [["tensor", s.tensor], ["context", s.context], ["pipeline", s.pipeline], ["virtual", s.virtual], ["expert", s.expert],
    ["expert-tensor", s.expertTensor], ["micro-batch", s.microBatch]].filter(([, value]) => value > 1);
  keys.push(["zero", s.zero], ["schedule", s.schedule]);
  if (s.pipeline * s.virtual > 1) keys.push(["layout", layoutOf(tables, s).join("/")]);
  if (wordOf(s).length) keys.push(["recompute", wordOf(s).join(",") + (s.recompute === "full" && s.layers ? `:${s.layers}` : "")]);
  return `${words.join(" ")} --judge "${keys.map((pair) => pair.join("=")).join(" ")}"`;
}

// ---- schedules: the passes of a rank in order, each with its letter and the chunk on the rank ----------------------------

// Of more micro-batches than this for each stage no order has more in flight, but that of GPipe, which has all.
const ENOUGH = 4;

function orderOf(schedule, rank, p, v, m) {
  const order = [];
  const add = (letter, chunk = 0) => order.push([letter, chunk]);
  if (schedule === "gpipe") for (const letter of "FB") for (let n = 0; n < m; n++) add(letter);
  if (schedule === "1f1b") {
    const first = Math.min(m, p - rank);
    for (let n = 0; n < first; n++) add("F");
    for (let n = 0; n < m; n++) {
      add("B");
      if (first + n < m) add("F");
    }
  }
  if (schedule === "interleaved-1f1b") {
    const chunk = (k) => Math.floor(k % (p * v) / p), first = Math.min(m * v, 2 * (p - 1 - rank) + (v - 1) * p);
    for (let k = 0; k < first; k++) add("F", chunk(k));
    for (let k = 0; k < m * v; k++) {
      if (first + k < m * v) add("F", chunk(first + k));
      add("B", v - 1 - chunk(k));
    }
  }
  return schedule.endsWith("-v") ? orderInV(schedule, rank, p, m) : order;
}

// The passes of a rank of a V: those of fewer than 2 p micro-batches are the first ones of so many.
function orderInV(schedule, rank, p, m) {
  const full = Math.max(m, 2 * p), order = [], done = { F0: 0, F1: 0, I0: 0, I1: 0, W0: 0, W1: 0 }, rest = p - rank - 1;
  const owed = (chunk) => done[`I${chunk}`] - done[`W${chunk}`];
  const one = (pass) => done[pass]++ < m && order.push([pass[0], Number(pass[1])]);
  const times = (count, ...passes) => {
    for (let i = 0; i < count; i++) for (const pass of passes) for (const part of pass[0] === "B" ? [`I${pass[1]}`, `W${pass[1]}`] : [pass]) one(part);
  };
  if (schedule === "zb-v") {
    times(2 * (p - rank) - 1, "F0");
    times(rank, "F1", "F0");
    times(p - rank, "F1", "B1");
    for (let n = 0; n < full - p; n++) times(1, ...(done.F0 < full ? ["F0"] : []), "B0", "F1", "B1");
    const left = full - done.I0, late = Math.min(full - done.I1, left);
    times(late, "I0", "I1");
    times(left - late, "I0", "W0");
  } else {
    times(2 * rest, "F0");
    times(rank + 1, "F0", "F1");
    times(rest, "B1", "F1");
    times(full - 2 * p + rank + 1, "F0", "B1", "F1", "B0");
    times(rest, "B1", "F1", "B0");
    const whole = Math.floor((rank + 1) / 2);
    times(whole, "B1", "B0");
    for (let k = whole; k <= rank; k++) times(1, k === whole && (rank + 1) % 2 ? "B1" : "I1", "I0");
    for (let i = 0; i < rest; i++) times(1, owed(1) ? "W1" : "W0", "I0");
  }
  times(owed(1), "W1");
  times(owed(0), "W0");
  return order;
}

function chunksOfRank(shape, rank, p, v) {
  return shape === "v" ? [rank, 2 * p - 1 - rank] : Array.from({ length: v }, (_, i) => rank + i * p);
}

// ---- what passes keep ---------------------------------------------------------------------------------------------------

const sumOf = (numbers) => numbers.reduce((sum, number) => sum + number, 0);

// Of one unit, where these modules are computed again: the tensors that a micro-batch leaves, and the moments of its way
// back, each with the tensors that are still kept, those that are there again, and the formula of what is there besides.
function keptOf([tensors, top, attention], word, letters) {
  const isLeft = (own) => (word.includes("full") ? own.layer_input : !own.dropped_by.some((name) => word.includes(name)));
  const bytes = (some) => sumOf(some.map((own) => valueOf(own.bytes, letters)));
  const left = tensors.filter(isLeft), again = tensors.filter((own) => !isLeft(own)), ended = "feed-forward";
  const moments = [{ during: "its last part", kept: left, again: again.filter((own) => word.includes("full") || own.part === ended), top }];
  if (attention !== null) {
    const [kept, lost] = [left, again].map((some) => some.filter((own) => own.part !== ended));
    moments.push({ during: "its attention", kept, again: lost, top: attention });
  }
  for (const own of moments) Object.assign(own, { keptBytes: bytes(own.kept), beside: valueOf(own.top, letters) + bytes(own.again) });
  return { left, stash: bytes(left), forWeights: bytes(left.filter((own) => own.for_weights)), moments };
}

// What one micro-batch keeps in a chunk, and the fullest moment of its backward pass.
function stashOf(tables, s, letters, types) {
  const { kept } = tables.models[s.model].by[s.framework], word = wordOf(s), known = {}, groups = [];
  let bytes = 0, forWeights = 0, layer = 0, most = { sum: -1 };
  types.forEach((type, place) => {
    const isLayer = tables.layers.includes(type), again = isLayer && (s.recompute !== "full" || !s.layers || layer < s.layers);
    layer += isLayer;
    const name = `${type}${again && word.length ? " that computes again" : ""}`;
    const own = (known[name] ??= keptOf(tables.pool[kept[type]], again ? word : [], letters));
    for (const moment of own.moments)
      if (bytes + moment.keptBytes + moment.beside > most.sum)
        most = { sum: bytes + moment.keptBytes + moment.beside, before: bytes, moment, type, place, units: types.length, kept: bytes + moment.keptBytes, beside: moment.beside };
    bytes += own.stash;
    forWeights += own.forWeights;
    if (groups.at(-1)?.name !== name) groups.push({ name, type, count: 0, own });
    groups.at(-1).count++;
  });
  return { bytes, forWeights, groups, most };
}

// The fullest moment of a rank: how many micro-batches of each of its chunks are in flight then, how many have only
// their gradients of weights before them, and of which chunk one runs backward (-1: none).
function fullestMoment(order, stashes, before) {
  const flying = stashes.map(() => 0), waiting = stashes.map(() => 0);
  let live = before * stashes[0].bytes, most = { sum: -1 };
  const see = (kept, beside, running) => {
    if (kept + beside > most.sum) most = { sum: kept + beside, kept, beside, running, flying: [...flying], waiting: [...waiting] };
  };
  flying[0] = before;
  see(live, 0, -1);
  for (const [letter, chunk] of order) {
    const stash = stashes[chunk];
    if (letter === "F") {
      live += stash.bytes;
      flying[chunk]++;
      see(live, 0, -1);
    } else if (letter === "W") {
      live -= stash.forWeights;
      waiting[chunk]--;
    } else {
      flying[chunk]--;
      see(live - stash.bytes + stash.most.kept, stash.most.beside, chunk);
      live -= letter === "B" ? stash.bytes : stash.bytes - stash.forWeights;
      waiting[chunk] += letter === "I";
    }
  }
  return most;
}

// ---- what is there all the time, and the whole rank -------------------------------------------------------------------

// Parameters by type of unit, and what types on a rank have together: a copy of the table of words where a head or a
// prediction reads it whose embedding is elsewhere, and the numbers in one buffer for each shape of weights.
function parametersOf(tables, s, letters, counts) {
  const model = tables.models[s.model], types = Object.keys(counts), table = (type) => tables.pool[model.parameters[type]];
  const reads = (types.includes("head") && model.tied) || types.includes("prediction");
  const copied = reads && !types.includes("embedding") ? valueOf(model.table, letters) : 0;
  const sum = (name) => sumOf(types.map((type) => counts[type] * valueOf(table(type)[name], letters)));
  const sizes = types.flatMap((type) => table(type).shapes.map((shape) => shape.map((side) => valueOf(side, letters))));
  const shapes = [...new Map(sizes.map((shape) => [String(shape), shape])).values()];
  const largest = Math.max(...types.map((type) => valueOf(table(type).usual, letters) + valueOf(table(type).experts, letters)));
  return { usual: sum("usual") + copied, experts: sum("experts"), copied, largest, shapes };
}

// Bytes by part of each pipeline rank, with what they are made of. All ranks of a stage are alike.
function memoryOf(tables, s) {
  const letters = lettersOf(tables, s), framework = tables.frameworks[s.framework], state = framework.states[s.optimizer][s.zero];
  const { c, p, v, d, b } = letters, rule = tables.schedules[s.schedule], layout = layoutOf(tables, s);
  const units = tables.models[s.model].units.flatMap(([type, count]) => Array(count).fill(type));
  const chunks = layout.map((count, i) => units.slice(sumOf(layout.slice(0, i)), sumOf(layout.slice(0, i + 1))));
  const stashes = chunks.map((types) => stashOf(tables, s, letters, types));
  const shards = [c * d, letters.d_e], batches = s.batch / (d * b), listed = Math.min(batches, ENOUGH * p);
  return Array.from({ length: p }, (_, rank) => {
    const own = chunksOfRank(rule.shape, rank, p, v), counts = {};
    for (const type of own.flatMap((chunk) => chunks[chunk])) counts[type] = (counts[type] ?? 0) + 1;
    const parameters = parametersOf(tables, s, letters, counts);
    const most = fullestMoment(orderOf(s.schedule, rank, p, v, listed), own.map((chunk) => stashes[chunk]), rule.allFirst ? batches - listed : 0);
    const standing = (name) => parameters.usual * (state[name].whole + state[name].shared / shards[0]) + parameters.experts * (state[name].whole + state[name].shared / shards[1]);
    const always = { workspace: tables.workspace, received: rank ? tables.half * letters["S′"] * letters.h : 0,
      cached: framework.cachedGradients ? tables.half * sumOf(parameters.shapes.map(([rows, columns]) => rows * columns)) : 0,
      gathered: tables.gatheredUnits * state.gathered * parameters.largest };
    const parts = { weights: standing("weights"), gradients: standing("gradients"), optimizer: standing("optimizer"),
      activations: most.kept, transient: most.beside + sumOf(Object.values(always)), reserve: tables.reserve };
    return { rank, parts, bytes: sumOf(Object.values(parts)), chunks: own, counts, parameters, most, always, stashes: own.map((chunk) => stashes[chunk]) };
  });
}

// Whether a rank fits: "yes" for sure, "maybe" within the error of predicted memory, or "no".
function fitOf(tables, s, bytes) {
  const gpu = tables.gpus[s.gpu], { more, less } = gpu.errors[s.framework];
  return bytes * (1 + more) <= gpu.bytes ? "yes" : bytes * (1 - less) > gpu.bytes ? "no" : "maybe";
}
