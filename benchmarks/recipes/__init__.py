"""What the packaged instances and some packaged profiles are made of; the stored files are all that users need."""

import sys
from pathlib import Path

# Lessons share known chains and random placements with the recipes.
sys.path.append(str(Path(__file__).resolve().parents[2] / "notebooks"))
