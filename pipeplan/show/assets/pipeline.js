"use strict";
// One iteration of a pipeline, by the rules of `pipeplan.simulate`. Stages form a chain, each on a device of its own.
// A stage: forward and backward (times of one pass), onward and back (times of a transfer to the next stage and from
// it), weights (bytes held all the time) and kept (bytes for each micro-batch in flight).
// A pass is a number: +j is the forward pass of micro-batch j, -j its backward pass.

// The same stages with one of them (from 1; 0: none) slower by a factor.
function withSlowStage(stages, number, factor) {
  return stages.map((stage, x) =>
    x + 1 === number ? { ...stage, forward: stage.forward * factor, backward: stage.backward * factor } : stage);
}

// Rule 1. How many forward passes a stage runs before its first backward pass. GPipe: all of them. kFkB (1F1B is
// k = 1): the last stage k; each stage before it as many as the next one, one more that is on its way, and where
// groups of several take turns (k > 1) another one, so that transfers are hidden. Never more than there are.
function warmUp(schedule, k, x, stages, microBatches) {
  if (schedule === "gpipe") return microBatches;
  const following = stages - 1 - x;
  return Math.min(k + following * (k > 1 ? 2 : 1), microBatches);
}

// Rule 2. The order of a stage: the warm-up, then k backward and k forward passes in turn, at the end backward alone.
function passesInOrder(microBatches, first, k) {
  const passes = [];
  let forward = 0, backward = 0;
  while (forward < first) passes.push(++forward);
  while (backward < microBatches) {
    const group = Math.min(k, forward - backward);
    for (let i = 0; i < group; i++) passes.push(-++backward);
    for (let i = 0; i < group && forward < microBatches; i++) passes.push(++forward);
  }
  return passes;
}

// Rule 3. What a pass reads: forward, what the stage before sent on; backward, its own forward pass and what the next
// stage sent back. The moment when all of it is there; NaN: something has not run yet.
function readyAt(stages, ends, x, j) {
  if (j > 0) return x === 0 ? 0 : (ends[x - 1].get(j) ?? NaN) + stages[x - 1].onward;
  const own = ends[x].get(-j) ?? NaN;
  if (x === stages.length - 1) return own;
  return Math.max(own, (ends[x + 1].get(j) ?? NaN) + stages[x].back);
}

// Rule 4. A device runs its passes one after the other in their order, each as soon as what it reads is there.
function runPasses(stages, orders) {
  const ends = stages.map(() => new Map());
  const runs = stages.map(() => []);
  let before = -1, done = 0;
  while (done > before) { // until nothing more can run
    before = done;
    orders.forEach((order, x) => {
      while (runs[x].length < order.length) {
        const j = order[runs[x].length];
        const start = Math.max(runs[x].at(-1)?.end ?? 0, readyAt(stages, ends, x, j));
        if (Number.isNaN(start)) break;
        const end = start + (j > 0 ? stages[x].forward : stages[x].backward);
        ends[x].set(j, end);
        runs[x].push({ pass: j, start, end });
        done++;
      }
    });
  }
  return runs;
}

// Rule 5. A micro-batch is in flight on a device from its forward to its backward pass. The most at once:
function mostInFlight(order) {
  let now = 0, most = 0;
  for (const j of order) {
    now += j > 0 ? 1 : -1;
    most = Math.max(most, now);
  }
  return most;
}

// Rule 6. The iteration ends with the last pass. The bubble is the share of all devices' time in which nothing ran.
function simulatePipeline(stages, microBatches, schedule, k) {
  const orders = stages.map((_, x) =>
    passesInOrder(microBatches, warmUp(schedule, k, x, stages.length, microBatches), k));
  const devices = runPasses(stages, orders).map((passes, x) => {
    const inFlight = mostInFlight(orders[x]);
    return {
      passes,
      busy: passes.reduce((sum, { pass }) => sum + (pass > 0 ? stages[x].forward : stages[x].backward), 0),
      inFlight,
      weights: stages[x].weights,
      bytes: stages[x].weights + inFlight * stages[x].kept,
    };
  });
  const iteration = Math.max(...devices.flatMap((device) => device.passes.map((pass) => pass.end)));
  const busy = devices.reduce((sum, device) => sum + device.busy, 0);
  return { iteration, bubble: iteration ? 1 - busy / (devices.length * iteration) : 0, devices };
}
