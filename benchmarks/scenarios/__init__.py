"""The scenarios: each measures one property, compares it with its goals, and can be run alone."""
