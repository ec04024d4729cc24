"""`quartzpy top`: the cluster, live in a terminal.

`model` has what is read, `view` what the user has chosen, `frame` draws both, `terminal` owns the screen and the keys,
and `command` runs it all.
"""
