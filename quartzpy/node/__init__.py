"""A node: its threads, and the workers that run its jobs. It knows the protocol of the store, and never SQL."""
