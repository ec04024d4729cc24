"""The threads of a node. They know the protocol of the store, and never SQL."""
