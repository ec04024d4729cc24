"""The methods of the scheduler, one class for each group of them; `SchedulingMethods` inherits from all."""
