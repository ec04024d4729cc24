"""The awaitable twins of the classes in `quartzpy.scheduler.methods`."""
