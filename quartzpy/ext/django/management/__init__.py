"""What the app adds to `manage.py`."""
