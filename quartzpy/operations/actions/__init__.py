"""The actions of operators: each checks the role, changes the store, and is recorded in the audit log."""

from quartzpy.operations.actions.actions import Actions

__all__ = ["Actions"]
