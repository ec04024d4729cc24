"""Fifteen prepared incidents on a real cluster: `python -m tests.incidents [--only NAME] [--healthy MINUTES]`."""
