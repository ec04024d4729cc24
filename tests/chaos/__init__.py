"""Node processes of a cluster under faults, a history that shares no fate with them, and a checker that is checked.

`python -m tests.chaos` plays a run. The modules, from the bottom up: `pipelines`, `proxy`, `network` (a network that
knows the protocol), `history`, `jobs`, `workload`, `client`, `node` (what is run), `stage`, `faults`,
`plans`, `audit`, `conductor` (what is done to it), `records`, `lives`, `checker`, `invariants` (what it means).
"""
