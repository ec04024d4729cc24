"""The asynchronous facade: the methods of `quartzpy.scheduler`, each of them awaitable."""
