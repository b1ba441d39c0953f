"""Tables of a comparison for a paper in LaTeX, with the rules of booktabs; numbers are those of the markdown tables."""

from __future__ import annotations

import re
from collections.abc import Sequence

# Characters that LaTeX does not take for text, and how they are written as text.
SPECIAL = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "µ": r"\textmu{}",
}
HEAD = (
    "% Made by `plan compare`. In the preamble: \\usepackage{booktabs,graphicx}; what is wider than the line is scaled "
    "to it.\n"
)
# Columns of names, which are set to the left even where the names look like numbers.
LABELS = ("instance", "setting", "method", "first", "second")
# The beginning of a number in a cell.
NUMBER = re.compile(r"[-+<(]*[\d.,]+")


def escaped(text: str) -> str:
    """Text in which LaTeX sees nothing but text."""
    return "".join(SPECIAL.get(char, char) for char in text)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str, label: str, note: str = "") -> str:
    """A table with its caption above and a note below; columns of numbers are set to the right."""
    numbers = [name not in LABELS and _is_number([row[i] for row in rows]) for i, name in enumerate(head)]
    columns = "".join("r" if number else "l" for number in numbers)
    lines = [
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{escaped(caption)}}}",
        f"  \\label{{tab:{label}}}",
        r"  \resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%",
        f"  \\begin{{tabular}}{{@{{}}{columns}@{{}}}}",
        r"    \toprule",
        f"    {_line(head)}",
        r"    \midrule",
        *(f"    {_line(row)}" for row in rows),
        r"    \bottomrule",
        r"  \end{tabular}}",
        *([f"  \\par\\smallskip{{\\footnotesize {escaped(note)}\\par}}"] if note else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(escaped(cell.strip()) for cell in cells) + r" \\"


def _is_number(cells: Sequence[str]) -> bool:
    """Do more than half of the cells that hold anything begin with a number?"""
    filled = [cell for cell in cells if cell.strip() not in ("", "-")]
    return bool(filled) and 2 * sum(NUMBER.match(cell.strip()) is not None for cell in filled) > len(filled)
