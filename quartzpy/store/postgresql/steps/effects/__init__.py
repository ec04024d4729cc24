"""The effects of ends: a module and a file of statements for each subject.

What the ends of a flight have written hands them over: an execution that is recorded while the row of its fire still
stands is one that this transaction ends. Each effect reads these, and is sent only if an end of the flight asks for it.
"""
