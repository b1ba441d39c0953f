"""Profiles: models with their costs and without a cluster, from which problems of every kind are made."""
