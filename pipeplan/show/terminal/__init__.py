"""Plans drawn with characters."""
