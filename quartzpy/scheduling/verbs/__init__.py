"""The verbs of the scheduler, one class for each group of them; `SchedulingVerbs` inherits from all."""
