"""Tools of quartzpy's own development; no part of the package."""
