"""The database: connections, transactions, prepared statements and tables."""
