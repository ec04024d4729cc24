"""The facade for event loops: the verbs of `quartzpy.verbs` and `quartzpy.scheduler`, each of them awaitable."""
