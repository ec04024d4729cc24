"""Calendars, which exclude instants from the schedules of the triggers that name them."""
