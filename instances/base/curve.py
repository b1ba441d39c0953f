"""Times that depend on how many samples run at once, from measured points."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from .checks import check_amount, check_positive, check_size
from .errors import InputError, show
from .fields import as_tuple, read_record
from .quantities import several

MAX_CURVE_POINTS = 10_000


@dataclass(frozen=True, slots=True)
class TimeCurve:
    """Time to run q samples at once on one device, from measured points: exact at them, linear between them.

    Outside the measured range the nearest segment is continued, never below 0; a single point is continued in
    proportion to q.
    """

    samples: tuple[float, ...]
    """Strictly increasing, above 0."""
    seconds: tuple[float, ...]
    """Times in the unit of what the curve belongs to, which is seconds by default."""

    def __call__(self, q: float) -> float:
        samples, seconds = self.samples, self.seconds
        if len(samples) == 1:
            return seconds[0] if q == samples[0] else seconds[0] * (q / samples[0])
        right = min(max(bisect_right(samples, q), 1), len(samples) - 1)
        left = right - 1
        if q == samples[left]:
            return seconds[left]
        if q == samples[right]:
            return seconds[right]
        slope = (seconds[right] - seconds[left]) / (samples[right] - samples[left])
        return max(0.0, seconds[left] + slope * (q - samples[left]))


def check_curve(where: str, curve: TimeCurve) -> None:
    """Raise an InputError unless the points increase, each with its number of samples and its time."""
    samples, seconds = curve.samples, curve.seconds
    if not samples:
        raise InputError(f"{where}.samples", "is empty", "give at least one measured point")
    if len(samples) != len(seconds):
        what = f"has {several(len(seconds), 'entry')} for {len(samples)} numbers of samples"
        raise InputError(f"{where}.seconds", what, "give one for each")
    check_size(f"{where}.samples", samples, MAX_CURVE_POINTS)
    for i, value in enumerate(samples):
        check_positive(f"{where}.samples[{i}]", value, "give numbers of samples > 0")
        if i and value <= samples[i - 1]:
            raise InputError(
                f"{where}.samples[{i}]", f"is {show(value)}, not above the one before", "let them increase"
            )
    for i, value in enumerate(seconds):
        check_amount(f"{where}.seconds[{i}]", value)


def curve_from_json(where: str, value: object) -> TimeCurve:
    """The points in JSON data; whoever holds the curve checks them."""
    return read_record(
        TimeCurve, where, value, '{"samples": [...], "seconds": [...]}', samples=as_tuple, seconds=as_tuple
    )
