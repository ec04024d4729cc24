"""Random and mutated input for every parser: no exception but ours, and no input that takes long.

`python -m tests.fuzz --target cron --inputs 1000000` runs long; the suite runs a few thousand inputs of each target.
"""
