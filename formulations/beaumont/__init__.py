"""Beaumont, Eyraud-Dubois, Shilova: periodic 1F1B patterns for chains (hal-02968802)."""
