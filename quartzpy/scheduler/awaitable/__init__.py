"""The awaitable form of the methods of a scheduler, and of what they return."""
