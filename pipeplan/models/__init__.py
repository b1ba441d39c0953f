"""Real models: profiles made of them, and plans that are exported and run."""
