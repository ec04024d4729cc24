"""The demonstration of a cluster that loses a node and recovers: `quartzpy demo`."""
