"""The contract that every store keeps, on each of our own."""

from quartzpy.testing.store.contract import *
