"""A simulated year of jobs with expectations, with failures that are injected, and a monitor that knows a crontab."""
