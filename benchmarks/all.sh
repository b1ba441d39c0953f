#!/usr/bin/env bash
# Makes all tables of benchmarks/results/ anew, in one go, on a machine that has nothing else to do.
#
#     benchmarks/all.sh [LOG]
#     ONLY=chains benchmarks/all.sh
#
# The order: what other tables read comes first (best known values, then proofs), then one page after the other, the
# short ones first. LOG (all.log unless told) gets a line for each table: its seconds of wall time, and the load average
# of the machine before it; where that is above 1 the table is worth little. Published inputs are read from
# PIPEPLAN_WORKLOADS. A table that fails is named at the end, and the others are made all the same.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export PIPEPLAN_WORKLOADS=${PIPEPLAN_WORKLOADS:-$PWD/../shared/workloads}
log=${1:-all.log}
failed=()

# Expected minutes on two cores (by the time limits of the runs; the log has the real ones), name, and command.
table() {
  local minutes=$1 name=$2
  shift 2
  [[ -z ${ONLY:-} || $name == *"$ONLY"* ]] || return 0
  local load began=$SECONDS
  load=$(cut -d' ' -f1 /proc/loadavg 2>/dev/null || echo '?')
  printf '=== %s (about %s min): %s\n' "$name" "$minutes" "$*"
  "$@" || failed+=("$name")
  printf '%-20s %6d s  load before %s  %s\n' "$name" $((SECONDS - began)) "$load" "$*" >>"$log"
}

latency=$PIPEPLAN_WORKLOADS/tarnawski/latency
throughput=$PIPEPLAN_WORKLOADS/tarnawski/throughput

table 24 best-known python benchmarks/best_known.py
table 16 proofs python benchmarks/proofs_page.py --workloads "$PIPEPLAN_WORKLOADS"
table 6 schedules python benchmarks/schedules.py --output benchmarks/results
table 8 graphpipe python benchmarks/graphpipe.py --output benchmarks/results
table 1 case-study python benchmarks/case_study.py --output benchmarks/results
table 6 piper python benchmarks/piper.py --workloads "$PIPEPLAN_WORKLOADS" --output benchmarks/results
table 8 latency python benchmarks/latency.py --workloads "$latency" --subgraphs 1 2
table 14 latency-larger python benchmarks/latency.py --workloads "$latency" --larger benchmarks/results/latency.md --limit 15 --seeds 0 1 2
table 30 throughput python benchmarks/throughput.py --family --seeds 1,2,3 --page benchmarks/results/throughput.md
table 5 dynamic-program python benchmarks/dynamic_program.py --workloads "$throughput" --output benchmarks/results
table 15 pareto python benchmarks/pareto.py --output benchmarks/results
table 12 time-limits python benchmarks/overrun.py --time-limit 5 --cold run --page benchmarks/results/time-limits.md
table 5 heuristics python benchmarks/training_heuristics.py
table 60 chains python benchmarks/chains.py --cases 8x4,10x4,12x4,18x4@none,18x4,18x8,24x8,64x4 --seeds 1,2,3,4,5 \
  --limit 600 --limits 64x4=120 --output benchmarks/results
table 4 counters python benchmarks/regression.py

if ((${#failed[@]})); then
  echo "failed: ${failed[*]}"
  exit 1
fi
