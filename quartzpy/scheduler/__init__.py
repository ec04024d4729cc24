"""The scheduler that programs use: its verbs, its lifecycle, and declared jobs."""
