"""The shortest period for given orders and shifts: kept beside the models that have the same need."""

from ...formulations.beaumont.timetable import Timetable as Timetable
from ...formulations.beaumont.timetable import Wait as Wait
from ...formulations.beaumont.timetable import tightest as tightest
