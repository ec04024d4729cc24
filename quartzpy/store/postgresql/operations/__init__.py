"""The reads of operators: aggregates, search and the state of the server."""
