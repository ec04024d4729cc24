"""Integrations with other libraries, each in a module that needs the library."""
