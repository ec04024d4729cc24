"""The migrations of the models, which have no tables."""
