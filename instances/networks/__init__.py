"""Networks as users have them: known ones by their shapes, profiles and tables. All of them become problems."""
