"""Who checks the checkers: builds of quartzpy with one guard taken out, each of which a test must catch.

`build` (takes a guard out of the source as it is imported), `guards` (what is taken out, and which tests catch it),
`plugin` (pytest's `--sabotage NAME`), `start` (another program on such a build), `trial` (runs the tests that must
fail), `python -m tests.sabotage` (all of them, as a table).
"""
