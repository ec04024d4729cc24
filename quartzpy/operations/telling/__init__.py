"""What people are told: a node checks the health of the cluster, and sends notifications."""
