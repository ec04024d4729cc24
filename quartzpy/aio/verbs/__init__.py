"""The awaitable twins of the classes in `quartzpy.scheduling.verbs`."""
