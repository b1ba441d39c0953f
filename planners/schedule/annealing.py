"""Better orders by annealing."""
class Annealer:
    @classmethod
    def of(cls, finite, objective, seed): return None
