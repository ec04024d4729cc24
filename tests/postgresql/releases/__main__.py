"""Write the wheel of this state, and a dump of its tables under load, for the releases that follow."""

from __future__ import annotations

import gzip
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from quartzpy import CronTrigger, JobDetail, Scheduler, SimpleTrigger, WeeklyCalendar
from quartzpy.embedded import EmbeddedPostgres
from quartzpy.keys import JobKey, TriggerKey
from quartzpy.store.postgresql import migrations
from tests.database import libpq_url
from tests.postgresql.releases import DUMP, NAME, ROOT, WHEEL, nodes
from tests.worlds.stage import binaries_of
from tests.worlds.world import World

OLDEST_DUMP = 16
"""The version of the server and its pg_dump: what a later one writes, the oldest server that we admit may not read."""


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory]
        subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        [wheel] = place.glob("*.whl")
        shutil.copyfile(wheel, WHEEL)
        binaries = binaries_of(World("", OLDEST_DUMP))
        with EmbeddedPostgres.temporary(binaries=binaries) as server, nodes(place) as start:
            migrations.upgrade(server.dsn)
            fill(server.dsn)
            running = [start(ROOT, server.dsn, name) for name in ("one", "other")]
            time.sleep(3)
            # A node that dies leaves what another one recovers.
            running[0].kill()
            time.sleep(0.3)
            dump = [str(Path(binaries) / "pg_dump"), "--no-owner", "--no-privileges", libpq_url(server.dsn)]
            written = subprocess.run(dump, check=True, capture_output=True).stdout
        DUMP.write_bytes(gzip.compress(written, mtime=0))
    print(f"{WHEEL.name}: {WHEEL.stat().st_size:,} bytes; {DUMP.name}: {DUMP.stat().st_size:,} bytes")


def fill(dsn: str) -> None:
    """Store one of each kind, and triggers that fire ten times a second."""
    scheduler = Scheduler(dsn, name=NAME)
    scheduler.add_calendar("weekdays", WeeklyCalendar())
    scheduler.set_limit("erp", 5)
    for number in range(10):
        job = JobDetail("tick", f"job-{number}", durable=True, limits=["erp"] if number == 1 else [], max_concurrent=2)
        scheduler.schedule_job(job, SimpleTrigger(f"t-{number}", interval=timedelta(seconds=0.1)))
    later = datetime(2090, 1, 1, tzinfo=UTC)
    scheduler.schedule_job(
        JobDetail("tick", "nightly", timeout="1h", description="a job", after=["job-2"]),
        CronTrigger("0 0 2 * * ?", name="nightly", time_zone="Europe/Berlin", calendar="weekdays", start_time=later),
    )
    scheduler.schedule_job(JobDetail("tick", "paused"), SimpleTrigger("paused", start_time=later))
    scheduler.pause(TriggerKey("paused", "DEFAULT"), reason="a test", by="ann")
    scheduler.trigger_job(JobKey("job-0", "DEFAULT"), by="ann")
    scheduler.shutdown()


if __name__ == "__main__":
    main()
