"""`quartzpy top`: the cluster, live in a terminal. `view` has what is shown, `frame` draws it, `command` runs both."""
