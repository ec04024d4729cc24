"""What operators read: models of jobs, triggers, executions, nodes and limits."""
