"""The tables as the statements know them: names, columns, rows, privileges and the `.sql` files."""
