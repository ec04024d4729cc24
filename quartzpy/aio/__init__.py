"""The asynchronous facade: the verbs of `quartzpy.scheduler`, each of them awaitable."""
