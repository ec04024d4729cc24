"""Engines: what runs the jobs of an executor outside of the node's threads, in processes or on a cluster of its own."""
