"""The papers: one module or folder per model builder. Builds models, never solves them."""
