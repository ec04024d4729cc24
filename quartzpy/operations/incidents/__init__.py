"""What is wrong now, or soon will be: the kinds of incidents, and those that are recorded."""
