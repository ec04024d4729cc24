"""Django projects on a real PostgreSQL."""
