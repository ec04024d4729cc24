"""The database triggers that keep the keys of triggers in a table of their own, as the migrations make them."""

from __future__ import annotations

FUNCTION = "qrtz_write_trigger_keys"
TRIGGERS = ("qrtz_trigger_keys_new", "qrtz_trigger_keys_none", "qrtz_trigger_keys_old", "qrtz_trigger_keys_same")
