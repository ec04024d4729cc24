"""The way to the database: connections, pools, pipelined transactions and their errors."""
