"""Log records: their format, and the capture of those of one execution."""
