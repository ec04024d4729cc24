"""Definitions of jobs, triggers, calendars and windows: one reader and one writer for files and for documents."""
