"""The settings of a scheduler and their sources."""
