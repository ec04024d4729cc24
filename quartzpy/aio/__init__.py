"""The asynchronous facade: the verbs of `quartzpy.scheduling`, each of them awaitable."""
