"""What a fire costs by the number of types, placements, triggers, keys and nodes beside it: the scenario `growth`."""
