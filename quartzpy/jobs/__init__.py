"""Jobs: what users write, what is stored of it, and what a job has while it runs."""
