"""The JSON API: the read models and actions of `quartzpy.operations` over HTTP."""
