"""A comparison as tables in words, for a terminal, a page, as CSV, and for papers as markdown and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import __version__
from ..formulations.papers import PAPERS, PROFILES, SOLVERS, Paper, bibliography, pipeplan_itself
from ..instances.base.json_file import csv_cell, write_text_atomically
from ..instances.base.quantities import listed as listed_words
from ..instances.base.result import PROVEN_TOLERANCE, met
from ..planners.registry import find_method
from ..studies.compare.comparison import Comparison
from ..studies.compare.table import (
    ASSUMED,
    CASE,
    SHIFT_S,
    absent_as_none,
    best_proven,
    faults,
    gaps,
    paired,
    plain_rows,
    profile,
    summary,
    time_profile,
    values,
)
from .console import draw_rows, put
from .page import Line, line_chart, listed, page, paragraph, section, table, tag
from .pictures import profile_points
from .words import Times, amount_or, measured, several

if TYPE_CHECKING:
    import pandas


# Names of the files by what they hold.
FILES = {"runs": "runs.csv", "tables": "tables.md", "latex": "tables.tex", "citations": "references.bib"}
# Functions that compute a frame of numbers, by what its file holds.
FRAMES = {"gaps": gaps, "profile points": profile, "time profile points": time_profile}


def write_tables(comparison: Comparison, folder: Path) -> dict[str, Path]:
    """Write all tables, atomically, and return their paths by what they hold."""
    frame = comparison.table()
    paths = {name: folder / file for name, file in FILES.items()}
    write_text_atomically(paths["runs"], frame.apply(lambda column: column.map(csv_cell)).to_csv(index=False))
    write_text_atomically(paths["tables"], markdown(comparison))
    write_text_atomically(paths["latex"], latex(comparison))
    write_text_atomically(paths["citations"], bibliography(cited(comparison)))
    if not frame.empty:
        for name, frame_of in FRAMES.items():
            paths[name] = folder / f"{name.replace(' ', '-')}.csv"
            write_text_atomically(paths[name], frame_of(frame).to_csv(index=False))
    return paths


@dataclass(frozen=True, slots=True)
class Part:
    """A table of a comparison, or a list, with its heading: what terminal, pages and papers show, each as it can."""

    title: str
    note: str
    """Sentences on what the table has; empty: its heading says it."""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    entries: Sequence[str] = ()
    """The entries of a list."""
    remark: str = ""
    """Words below the table."""
    sums: int = 0
    """So many rows at the end sum up those above."""


# Titles of parts; claims are stored results that had to be put right.
GAPS, PAIRS, CLAIMS = "Gaps", "Pairs of methods", "Claims"


def parts_of(comparison: Comparison) -> dict[str, Part]:
    """The parts that there are, by their titles, the most important first; none where no run has finished."""
    frame = comparison.table()
    if frame.empty:
        return {}
    told = {run.key: run.title for run in comparison.expanded.runs}
    claims = [f"{told[key]}: {'; '.join(found)}" for key, found in comparison.differences.items()]
    failures = [f"{method} on {cases}: {how}. {message}" for method, cases, how, message in faults(frame)]
    # Why values may differ from the published ones beneath them, where any are published.
    about = comparison.expanded.about if comparison.expanded.published else ""
    pairs = [_pair(row) for row in plain_rows(paired(frame, comparison.expanded.against))]
    found_gaps = gap_cells(frame)
    every = (
        Part("Values", f"Recomputed by the referee; {LOSS}.", *case_cells(frame), remark=about),
        Part(GAPS, _gaps_note(frame, found_gaps[1]), *found_gaps, sums=GAP_SUMS),
        Part("Methods", f"{METHODS}.", METHOD_HEAD, method_cells(frame)),
        Part(PAIRS, ASSUMED, PAIR_HEAD, pairs),
        Part("Runs", "Seconds of the whole process, and the most memory that it held.", *run_cells(frame)),
        Part(CLAIMS, TOLD_OTHERWISE, entries=claims),
        Part("Failures", "", entries=failures),
    )
    return {part.title: part for part in every if part.rows or part.entries}


def markdown(comparison: Comparison) -> str:
    """All parts, ready for a paper."""
    lines = [f"# {cleaned(comparison.expanded.title)}", "", state(comparison), ""]
    for part in parts_of(comparison).values():
        rows = [[cleaned(cell).replace(f" {PROVEN}", f" *{PROVEN}*") for cell in row] for row in part.rows]
        listed = [f"- {cleaned(entry)}" for entry in part.entries] or lines_of(part.head, rows)
        for block in ([f"## {part.title}"], [cleaned(part.note)], listed, [cleaned(part.remark)]):
            lines += [*block, ""] if any(block) else []
    return "\n".join(lines)


# Words for the numbers beside values. The gap to a method's own bound is in the CSV alone.
LOSS = (
    "proven: no plan of those that the method considers is better; with several seeds, values are medians (of an even "
    "number the mean of the middle two), where a run without a plan is worse than any value; "
    "in brackets: how much more than the best proven value of the row"
)

TOLD_OTHERWISE = "Stored results that differ from what was recomputed; the tables show what was recomputed."


def state(comparison: Comparison) -> str:
    """How many runs have finished within which limits, and remarks on the instances."""
    return " ".join((finished(comparison), asked(comparison), *map(cleaned, comparison.expanded.remarks())))


def finished(comparison: Comparison) -> str:
    return f"{len(comparison.records)} of {several(len(comparison.expanded.runs), 'run')} finished."


def asked(comparison: Comparison) -> str:
    """The seconds and seeds of the runs."""
    runs = comparison.expanded.runs
    times = sorted({run.limits["time_limit_s"] for run in runs if run.limits.get("time_limit_s")})
    seeds = sorted({run.seed for run in runs})
    limit = f"at most {listed_words([f'{time:g}' for time in times])} s each" if times else "no limit of time"
    return f"Runs had {limit}, and {several(len(seeds), 'seed')}."


PROVEN = "proven"


def case_cells(frame: pandas.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of values: a row for each case, with the published values below it; settings have a
    column where there are any."""
    cells = values(frame)
    with_settings, methods = bool((frame["setting"] != "").any()), [str(method) for method in cells.columns]
    rows = []
    for case, row in zip(cells.index, cells.itertuples(index=False, name=None), strict=True):
        numbers, of_instance = [absent_as_none(value) for value in row], frame[frame[CASE[0]] == case[0]]
        setting = [str(case[1])] if with_settings else []
        units, best = of_instance["time_unit"].dropna(), best_proven(frame, case)
        times = Times.of(numbers, str(units.iloc[0]) if len(units) else None)
        of_case = of_instance[of_instance[CASE[1]] == case[1]]
        runs = [of_case[of_case["method"] == method] for method in methods]
        found = [_value_cell(own, value, best, times) for own, value in zip(runs, numbers, strict=True)]
        rows.append([measured(str(case[0]), times.unit), *setting, *found])
        published = [own["published"].dropna() for own in runs]
        printed = [times.text(float(one.iloc[0]), digits=DIGITS) if len(one) else "" for one in published]
        if any(printed):
            rows.append([PUBLISHED, *([""] if with_settings else []), *printed])
    return ["instance", *(["setting"] if with_settings else []), *methods], rows


# The words that open the row of published values, below the row of ours.
PUBLISHED = "  published"


def _value_cell(own: pandas.DataFrame, value: float | None, best: float | None, times: Times) -> str:
    """The value of the runs of a case by a method, and its loss; why there is none in place of it."""
    if own.empty or value is None:
        return _ending(own)
    proven = [PROVEN] if (own["stop"] == "proven").all() else []
    ends = [times.text(float(end), digits=DIGITS) for end in (own["value"].min(), own["value"].max())]
    spread = [] if ends[0] == ends[1] else [f"[{ends[0]} to {ends[1]}]"]
    loss = [f"({_gap(value / best - 1)})"] if best and not met(value, best) else []
    return " ".join([times.text(value, digits=DIGITS), *spread, *proven, *loss])


def _ending(own: pandas.DataFrame) -> str:
    """How the runs of a cell without a value ended; nothing where there are none."""
    failed = own[own["value"].isna()]
    return "" if failed.empty else str(failed["ending"].iloc[0])


def gap_cells(frame: pandas.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the table of gaps, with means, wins and times of the methods in the last rows."""
    table, with_settings = gaps(frame), bool((frame["setting"] != "").any())
    head = [*(CASE if with_settings else CASE[:1]), "optimum"]
    rows = []
    for row in plain_rows(table):
        case, known, name = [row.pop(column) for column in CASE], row.pop("reference"), row.pop("is")
        of_case = frame[(frame[CASE[0]] == case[0]) & (frame[CASE[1]] == case[1])]
        unit = next(iter(of_case["time_unit"].dropna()), None)
        cells = [
            _ending(of_case[of_case["method"] == method]) if gap is None else _gap(gap)
            for method, gap in row.items()
        ]
        reference = REFERENCES.get(name, "{}").format(amount_or(known, unit, "-", DIGITS))
        rows.append([*case[: len(head) - 1], reference, *cells])
    rows_of = plain_rows(summary(frame))
    intervals = [(row["gap_low"], row["gap_high"]) for row in rows_of]
    ends = {
        "geometric mean": [f"{_gap(row['geometric_mean_gap'])} ({row['cases_with_gap']})" for row in rows_of],
        "95 % interval": ["-" if low is None else f"{_gap(low)} to {_gap(high)}" for low, high in intervals],
        "best in": [str(row["best_in_cases"]) for row in rows_of],
        "SGM s": [_two_digits(row["shifted_geometric_mean_s"]) for row in rows_of],
    }
    assert len(ends) == GAP_SUMS
    rows += [[name, *[""] * (len(head) - 1), *cells] for name, cells in ends.items()]
    return [*head, *map(str, table.columns[4:])], rows


def _gaps_note(frame: pandas.DataFrame, rows: Sequence[Sequence[str]]) -> str:
    """What the gaps are to; of the marks in the table only those that it has."""
    cells, scopes = (
        [cell for row in rows for cell in row],
        frame[frame["stop"] == "proven"]["scope"].dropna().unique(),
    )
    told = [f"Optimal among {listed_words(list(scopes))}."] if len(scopes) else []
    told += [UNPROVEN] if any(cell.startswith((">= ", "<= ")) for cell in cells) else []
    told += [BELOW] if any(cell.startswith("-") and cell.endswith("%") for cell in cells) else []
    return " ".join(["How much a value is above the proven optimum.", *told, GAPS_MEAN])


# How the reference of a row of gaps is written, by what it is.
REFERENCES = {"bound": ">= {}", "best found": "<= {}"}
# Rows below the gaps.
GAP_SUMS = 4
UNPROVEN = "Where none is proven, it is above a bound (>=), which says how far at most, or the best value (<=)."
BELOW = "Below 0: a plan of a kind that the proof leaves out."
GAPS_MEAN = (
    "The geometric mean is that of value / reference, less 1, over as many cases as the brackets say; its interval is "
    "a percentile bootstrap over cases. Means of methods over different cases do not compare."
)


def _gap(gap: float | None) -> str:
    """A gap in per cent; a small one is shown as small, never as nothing."""
    if gap is None or abs(gap) <= PROVEN_TOLERANCE:
        return "-" if gap is None else "0 %"
    if abs(100 * gap) < LEAST_GAP:
        return f"< {LEAST_GAP} %" if gap > 0 else f"> -{LEAST_GAP} %"
    return f"{100 * gap:+.2f} %"


def _two_digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


# A smaller percentage is shown as "less than this", never as nothing.
LEAST_GAP = 0.01
# Digits of a value in a table.
DIGITS = 6

METHOD_HEAD = ("method", "plans", "proven", "best in", "geo. mean", "worst", "SGM s", "median s", "wall", "memory")
METHODS = (
    "Geo. mean is the geometric mean, and worst the largest, of the ratios to the best of each case, over the cases "
    f"with a value. SGM is the geometric mean of a method's seconds, shifted by {SHIFT_S:g} s, over all runs, also "
    "those that a limit cut short; seconds, those of the process (wall) and the most memory that it held are medians"
)


def method_cells(frame: pandas.DataFrame) -> list[list[str]]:
    """Rows of the table of methods."""
    return [_method(row) for row in plain_rows(summary(frame))]


def _method(row: Mapping[str, Any]) -> list[str]:
    ratios_to_best = (row["geometric_mean_ratio_to_best"], row["worst_ratio_to_best"])
    spent = (row["shifted_geometric_mean_s"], row["median_total_s"])
    return [
        str(row["method"]),
        f"{row['verified']} of {row['runs']}",
        str(row["proven"]),
        f"{row['best_in_cases']} of {row['cases']}",
        *("-" if ratio is None else f"{ratio:.4f}" for ratio in ratios_to_best),
        *map(_two_digits, spent),
        seconds(row["median_wall_s"]) or "-",
        memory(row["median_peak_memory_bytes"]) or "-",
    ]


PAIR_HEAD = ("first", "second", "cases", "better", "alike", "worse", "ratio", "95 % interval", "p", "Holm's p")


def _pair(row: Mapping[str, Any]) -> list[str]:
    low, high = row["interval_low"], row["interval_high"]
    return [
        row["first"],
        row["second"],
        str(row["cases"]),
        *(str(row[name]) for name in ("first_better", "alike", "second_better")),
        number(row["geometric_mean_ratio"], 4) or "-",
        "-" if low is None else f"{low:.4g} to {high:.4g}",
        *("-" if row[name] is None else f"{row[name]:.2g}" for name in ("wilcoxon_p", "holm_p")),
    ]


def latex(comparison: Comparison) -> str:
    """The tables for a paper in LaTeX with booktabs."""
    tables = {name.lower(): part for name, part in parts_of(comparison).items() if part.rows and name != "Runs"}
    title, told = comparison.expanded.title, asked(comparison)
    told = f"{finished(comparison)} {told}" if comparison.missing else told
    return LATEX_HEAD + "\n".join(
        latex_table(replace(part, note=f"{part.note} {told}"), f"{title}: {name}", name.partition(" ")[0])
        for name, part in tables.items()
    )


def cited(comparison: Comparison) -> list[Paper]:
    """This program, and the papers of the methods and solvers that were used and of the profiles."""
    names = dict.fromkeys(run.formulation or run.planner or "" for run in comparison.expanded.runs)
    kinds = dict.fromkeys(run.kind for run in comparison.expanded.runs)
    entries = [entry for entry in map(find_method, names) if entry is not None]
    keys = [entry.for_kind(kind).paper for entry in entries for kind in kinds]
    used = {(record.result or {}).get("backend", {}).get("name") for record in comparison.records.values()}
    solvers = [paper for name, paper in SOLVERS.items() if name in used]
    papers = [PAPERS[key] for key in keys if key is not None and key in PAPERS]
    return [pipeplan_itself(__version__), *dict.fromkeys([*papers, *solvers, PROFILES])]


def run_cells(frame: pandas.DataFrame) -> tuple[list[str], list[list[str]]]:
    """Head and rows of a table of all runs: what each found, how long it took and how much memory. Published seconds
    are those of a search on the machine that the source names."""
    rows = []
    for row in plain_rows(frame):
        published = "" if row["published_s"] is None else f" [published {number(row['published_s'], 6)} s]"
        rows.append(
            {
                **{name: str(row[name]) for name in ("instance", "setting", "method", "seed")},
                "value": amount_or(row["value"], row["time_unit"], "", DIGITS),
                "end": row["ending"],
                "wall time": seconds(row["wall_s"]) + published,
                "peak memory": memory(row["peak_memory_bytes"]),
            }
        )
    kept = [name for name in rows[0] if name != "setting" or any(row["setting"] for row in rows)]
    return kept, [[row[name] for name in kept] for row in rows]


def seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def memory(value: float | None) -> str:
    return "" if value is None else f"{value / 2**20:.0f} MiB"


def lines_of(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a markdown table."""
    every = ([cleaned(name) for name in head], ["---"] * len(head), *rows)
    return ["| " + " | ".join(cells) + " |" for cells in every]


def number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}g}"


def cleaned(text: object) -> str:
    """Text from a file as text of a table: no line breaks, no column marks, no HTML."""
    flat = " ".join(str(text).split())
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace("|", "\\|")


# ---- LaTeX -----------------------------------------------------------------------------------------------

# Characters that LaTeX does not take for text, and how they are written as text.
SPECIAL = {char: f"\\{char}" for char in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "µ": r"\textmu{}",
}
LATEX_HEAD = (
    "% Made by `plan compare`. In the preamble: \\usepackage{booktabs,graphicx}; what is wider than the line is scaled "
    "to it.\n"
)
# Columns of names, which are set to the left even where the names look like numbers.
LABELS = ("instance", "setting", "method", "first", "second")
# The beginning of a number in a cell.
NUMBER = re.compile(r"[-+<>=( ]*[\d.,]+")


def escaped(text: str) -> str:
    """Text in which LaTeX sees nothing but text."""
    return "".join(SPECIAL.get(char, char) for char in text)


def latex_table(part: Part, caption: str, label: str) -> str:
    """A table with its caption above and its note below; columns of which more than half of the cells that hold
    anything begin with a number are set to the right. A line parts the rows that sum up."""
    columns, head, rows = "", part.head, part.rows
    for i, name in enumerate(head):
        filled = [row[i].strip() for row in rows if row[i].strip() not in ("", "-")]
        numbers = sum(NUMBER.match(cell) is not None for cell in filled)
        columns += "r" if name not in LABELS and 2 * numbers > len(filled) else "l"
    head_line, *lines_of_rows = (
        "    " + " & ".join(escaped(cell.strip()) for cell in cells) + r" \\" for cells in (head, *rows)
    )
    if part.sums:
        lines_of_rows.insert(-part.sums, r"    \midrule")
    lines = [
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{escaped(caption)}}}",
        f"  \\label{{tab:{label}}}",
        r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        f"  \\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
        r"    \toprule",
        head_line,
        r"    \midrule",
        *lines_of_rows,
        r"    \bottomrule",
        r"  \end{tabular}}",
        *([f"  \\par\\smallskip{{\\footnotesize {escaped(part.note)}\\par}}"] if part.note else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


# ---- terminal -------------------------------------------------------------------------------------------------


def draw_comparison(comparison: Comparison) -> None:
    """Print the values of every case by method, then one line for each method."""
    parts = parts_of(comparison)
    if not parts:
        put("no run has finished")
        return
    values, methods, left = parts["Values"], parts["Methods"], ",".join(LABELS)
    put(finished(comparison) if comparison.missing else "", style="bold")
    put("values, recomputed by the referee", style="bold")
    draw_rows(values.head, values.rows, left, labels=len(values.head) - len(methods.rows))
    losses = any("%" in cell for row in values.rows for cell in row)
    put(values.note if losses else "", values.remark, style="dim")
    put("methods, ratios to the best of each case", style="bold")
    draw_rows(methods.head, methods.rows, left)
    if comparison.expanded.against and PAIRS in parts:
        put(f"{comparison.expanded.against} against each other", style="bold")
        draw_rows(parts[PAIRS].head, parts[PAIRS].rows, left, labels=2)
    put(*comparison.expanded.once_remark(), style="dim")
    claims, failures = (parts[name].entries if name in parts else () for name in (CLAIMS, "Failures"))
    put(*(f"claims: {claim}" for claim in claims), style="bold red", soft=True)
    put(*failures, soft=True)


def draw_leaderboard(board: Comparison) -> None:
    """Print how far each method is above the optimum or a bound, case by case, and what contradicts a file."""
    parts = parts_of(board)
    put("gaps, recomputed by the referee", style="bold")
    labels = len(parts[GAPS].head) - len(parts["Methods"].rows)
    draw_rows(parts[GAPS].head, parts[GAPS].rows, ",".join(LABELS), labels=labels)
    put(parts[GAPS].note, style="dim")
    claims = parts[CLAIMS].entries if CLAIMS in parts else ()
    put(*(f"claims: {claim}" for claim in claims), style="bold red", soft=True)


# ---- page -----------------------------------------------------------------------------------------------------


def comparison_page(comparison: Comparison) -> str:
    """One HTML page of what has finished so far: each part as a list or a table, and the profile."""
    title, parts = comparison.expanded.title, parts_of(comparison)
    sections = [tag("header", None, tag("h1", None, title), paragraph(state(comparison), "note"))]
    for part in parts.values():
        note, remark = (paragraph(text) if text else None for text in (part.note, part.remark))
        content = [note, listed(part.entries)] if part.entries else []
        if part.rows:
            content = [table(part.head, part.rows, part.note.rstrip(".")), remark]
        sections.append(section(part.title, *content))
    if parts:
        frame, label = comparison.table(), "Share of cases within a ratio of the best"
        lines = [Line.of(name, curve) for name, curve in profile_points(profile(frame)).items()]
        curves = line_chart(lines, label, "ratio to the best value", "cases (%)", low=0.0, high=100.0)
        sections.append(section("Profile", curves))
    return page(title, sections)
