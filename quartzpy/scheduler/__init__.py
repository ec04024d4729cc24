"""The scheduler that programs use: its methods, its lifecycle, and declared jobs."""
