"""The execution of jobs on a node: threads, an event loop and child processes that run them, and how each run ends."""
