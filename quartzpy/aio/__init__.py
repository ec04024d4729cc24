"""The asynchronous facade: the verbs of `quartzpy.verbs` and `quartzpy.scheduler`, each of them awaitable."""
