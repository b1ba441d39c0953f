"""Plans in the words of the frameworks that run them: one module for each target, `registry.py` lists them."""
