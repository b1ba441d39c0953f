"""Pictures of plans and results for papers and pages: SVG or PNG, the same bytes for the same facts."""
