"""A shop that sends invoices and writes a nightly report."""
