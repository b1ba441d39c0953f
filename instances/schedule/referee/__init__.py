"""The referee of schedules: what breaks a rule, and what a schedule costs, from its starts alone."""
