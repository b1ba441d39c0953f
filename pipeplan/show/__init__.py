"""A plan for people: on the terminal, as pictures, as pages."""
