"""The in-memory store, for tests and for programs without a database."""
