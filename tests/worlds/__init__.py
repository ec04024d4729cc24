"""Worlds: servers, connections, roles, versions of Python and machines as users have them, as a dimension of the tests.

A normal run spreads some of them over its workers (`world.spread`). `python -m tests.worlds` runs the suites of
`__main__.SUITES` in each of `world.WORLDS`; `python -m tests.worlds.install` installs what it needs.
"""
