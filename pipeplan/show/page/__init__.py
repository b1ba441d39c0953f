"""Reports: one HTML page that stands alone, of a result or of a comparison."""
