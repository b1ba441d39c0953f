"""From a question to a judged answer: which method, its start, the referee, cross-checks, and why there is no plan."""
