"""How far numbers in floats may be off: each tolerance that several methods share, once and with its reason.

All are relative. A tolerance of one method alone stands in that method.
"""

# A sum of doubles may be off by this share of it: some thousand additions of 2^-53 each.
SUM_ROUNDING = 1e-12
# A plan or choice counts as better only if it is better by more than this; what is less is rounding.
BETTER = 1e-12
# Ends of passes that have moved by times that differ no more are in the steady state: they are differences of sums.
STEADY = 1e-11
# Bounds that come from sums of floats are lowered by this, and limits raised, so that rounding neither lifts a bound
# above the optimum nor refutes a plan. It is far more than sums lose, and far less than a gap that anybody reports.
SAFETY = 1e-9
# Values that differ by less are the same to a reader: the difference is rounding.
SAME = 1e-9
