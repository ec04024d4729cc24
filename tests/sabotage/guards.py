"""All guards that are taken out, one at a time, and the tests that catch it."""

from __future__ import annotations

from tests.sabotage.backlogs import BACKLOGS
from tests.sabotage.build import Sabotage
from tests.sabotage.bulk import BULK
from tests.sabotage.cures import CURES
from tests.sabotage.drains import DRAINS
from tests.sabotage.features import FEATURES
from tests.sabotage.fires import FIRES
from tests.sabotage.gates import GATES
from tests.sabotage.held_rows import HELD_ROWS
from tests.sabotage.joins import JOINS
from tests.sabotage.node_keys import NODE_KEYS
from tests.sabotage.pipelines import PIPELINES
from tests.sabotage.protections import PROTECTIONS
from tests.sabotage.refills import REFILLS
from tests.sabotage.rows import ROWS
from tests.sabotage.shared_limits import SHARED_LIMITS
from tests.sabotage.slots import SLOTS
from tests.sabotage.waking import WAKING
from tests.sabotage.web import WEB

SABOTAGES: dict[str, Sabotage] = {
    one.name: one
    for one in (
        *PROTECTIONS,
        *CURES,
        *FEATURES,
        *DRAINS,
        *FIRES,
        *REFILLS,
        *PIPELINES,
        *HELD_ROWS,
        *JOINS,
        *ROWS,
        *BACKLOGS,
        *NODE_KEYS,
        *GATES,
        *SHARED_LIMITS,
        *SLOTS,
        *BULK,
        *WAKING,
        *WEB,
    )
}

SAMPLE = ("no_fence_on_complete", "no_unbroken_evidence", "h7_a_refused_thread_wedges")
"""What every test run tries: quick, and certain to fail at once."""
