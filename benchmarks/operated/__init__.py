"""The reads of operators beside millions of rows: their rows, the read models, the pages and the commands."""
