"""Methods of operators: subjects, confirmation, dry runs, exit statuses, results as JSON."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from quartzpy import CronTrigger, Job, JobDetail, JobExecutionContext, JobKey, SimpleTrigger, TriggerKey
from quartzpy.states import JobMode, PublicState
from tests.cli.conftest import Terminal
from tests.cluster.app import Quick

LATER = datetime(2090, 1, 1, tzinfo=UTC)


def later(name: str, group: str = "DEFAULT") -> SimpleTrigger:
    return SimpleTrigger(name, group, start_time=LATER, interval=timedelta(hours=1))


@pytest.fixture
def three(terminal: Terminal) -> Terminal:
    """A job with three triggers."""
    terminal.scheduler.schedule_job(JobDetail(Quick, "job", durable=True), [later("a"), later("b"), later("c", "eu")])
    return terminal


def states(terminal: Terminal) -> str:
    keys = (TriggerKey("a"), TriggerKey("b"), TriggerKey("c", "eu"))
    return " ".join(terminal.scheduler.trigger_state(key) for key in keys)


def test_named_triggers_are_paused_and_resumed_with_a_reason(three: Terminal) -> None:
    assert three.ok("pause", "a", "eu.c", "--reason", "the bank is closed") == "Paused 2 triggers.\n"
    assert states(three) == "PAUSED NORMAL PAUSED"
    assert "the bank is closed" in three.ok("triggers", "--columns", "trigger,pause_reason")
    result = json.loads(three.ok("resume", "a", "--missed", "skip", "--json"))
    assert (result["action"], result["count"]) == ("resume", 1)
    assert states(three) == "NORMAL NORMAL PAUSED"
    audit = json.loads(three.ok("audit", "--json"))["items"]
    assert [(one["action"], one["reason"], one["count"]) for one in audit] == [
        ("resume", "", 1),
        ("pause", "the bank is closed", 2),
    ]
    undoing = three.ok("audit", "--columns", "action,undone_by")
    assert re.findall(r"^(\w+) +(.+)$", undoing, re.MULTILINE)[1:] == [
        ("resume", "quartzpy pause --trigger=DEFAULT.a"),
        ("pause", "resume"),
    ]


def test_a_key_is_that_of_a_job_or_of_a_trigger(three: Terminal) -> None:
    assert three.ok("pause", "job") == "Paused job DEFAULT.job.\n"
    assert states(three) == "PAUSED PAUSED PAUSED"
    assert three.ok("resume", "--trigger", "a", "--trigger", "b") == "Resumed 2 triggers.\n"
    three.scheduler.schedule_job(Quick, later("report"), name="report")
    assert three.ok("pause", "report") == "Paused trigger DEFAULT.report.\n"
    three.scheduler.schedule(replace(later("second"), job_key=JobKey("report")))
    refused = three.run("resume", "report")
    assert "a job and a trigger are called 'report': write --job report or --trigger report" in refused.err
    assert three.ok("resume", "--job", "report") == "Resumed job DEFAULT.report.\n"


def test_a_limit_that_jobs_share_is_set_and_listed(terminal: Terminal) -> None:
    assert terminal.ok("limit", "set", "erp", "5", "--reason", "the contract") == "Limit erp is 5.\n"
    assert terminal.ok("limit", "set", "erp", "2, 10/minute") == "Limit erp is 2, 10 per minute; it was 5.\n"
    terminal.scheduler.add_job(JobDetail(Quick, "book", durable=True, limits=["erp"]))
    assert re.search(r"shared +erp .*2, 10 per minute", terminal.ok("limits"))
    assert re.search(r"shares limits +erp", terminal.ok("show", "job", "book"))
    [_, first] = json.loads(terminal.ok("audit", "--json"))["items"]
    assert (first["action"], first["subject"], first["reason"]) == ("set_limit", "limit erp", "the contract")
    terminal.scheduler.delete_job("book")
    assert terminal.ok("limit", "list") == terminal.ok("limits")
    assert terminal.ok("limit", "delete", "erp") == "Limit erp was removed.\n"


def test_a_selection_is_confirmed_and_a_dry_run_changes_nothing(
    three: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = ("pause", "--group", "DEFAULT", "--state", "normal")
    assert three.ok(*every, "--dry-run") == "would pause 2 triggers: DEFAULT.a, DEFAULT.b\n"
    assert json.loads(three.ok(*every, "--dry-run", "--json")) == {
        "action": "pause",
        "dry_run": True,
        "count": 2,
        "keys": ["DEFAULT.a", "DEFAULT.b"],
    }
    unasked = three.run(*every)
    assert unasked.status == 8
    assert unasked.err.startswith("Pause 2 triggers: DEFAULT.a, DEFAULT.b? Nobody can be asked, because")
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    for answer, status, expected in (("n", 8, "NORMAL NORMAL NORMAL"), ("y", 0, "PAUSED PAUSED NORMAL")):
        monkeypatch.setattr("click.termui.visible_prompt_func", lambda _, answer=answer: answer)
        assert three.run(*every).status == status
        assert states(three) == expected
    three.ok("resume", "--everything", "--yes")
    assert states(three) == "NORMAL NORMAL NORMAL"
    three.ok("pause", "--group", "e*", "--yes")
    assert states(three) == "NORMAL NORMAL PAUSED"


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ("pause",),
            2,
            "name jobs or triggers, or give filters of triggers, or one of --group, --job-group, --everything",
        ),
        (("pause", "a", "--state", "WAITING"), 2, "give only one of keys, filters"),
        (("pause", "--state", "ERROR"), 7, "no trigger matches --state ERROR"),
        (("pause", "nothing"), 5, "there is no trigger and no job 'nothing'"),
        (("pause", "jobb"), 5, "there is no trigger and no job 'jobb'; did you mean DEFAULT.job?"),
        (("why", "jobb"), 5, "there is no trigger and no job 'jobb'; did you mean DEFAULT.job?"),
        (("pause", "--job", "jobb"), 5, "did you mean DEFAULT.job?"),
        (("reset", "a"), 9, "DEFAULT.a is WAITING, not ERROR"),
        (("reset", "--all"), 7, "no trigger matches --state ERROR"),
        (("cancel", "12345678"), 5, "execution 12345678 is not known"),
        (("cancel", "--all"), 7, "no execution matches --state PROCESSING;"),
        (("cancel", "--state", "FAILED"), 2, "only executions that are PROCESSING can be selected"),
        (
            ("cancel", "first"),
            2,
            "FIRE_ID: the number of an execution, as `quartzpy executions` lists it (got 'first')",
        ),
        (("log", "first"), 2, "FIRE_ID: the number of an execution"),
        (("show", "execution", "first"), 2, "FIRE_ID: the number of an execution"),
        (("show", "calendar", "c"), 5, "there is no calendar 'c'; no calendar is stored"),
        (("why", "nothing"), 5, "there is no trigger and no job 'nothing'"),
        (("delete", "a"), 2, "The kind comes first, as in `quartzpy delete job a`; the kinds are job, trigger."),
        (("pause", "trigger", "a"), 2, "no trigger 'trigger'; did you mean `quartzpy pause --trigger a`?"),
        (("pause", "group", "ops"), 2, "; did you mean `quartzpy pause --group ops`?"),
        (("resume", "everything"), 2, "; did you mean `quartzpy resume --everything`?"),
        (("resume", "--everything", "--group", "ops"), 2, "give only one of --group, --everything"),
        (("pause", "job", "a"), 2, "name either jobs or triggers: job DEFAULT.job, trigger DEFAULT.a"),
        (("pause-job-group", "ops"), 2, "Did you mean `quartzpy pause --job-group`?"),
        (("pause-all",), 2, "Did you mean `quartzpy pause --everything`?"),
        (("set-limit", "erp", "5"), 2, "Did you mean `quartzpy limit set`?"),
        (("window-remove", "x"), 2, "No such command"),
        (("reschedule", "a", "every", "5s"), 2, "Quote the schedule, which has blanks: quartzpy reschedule a '...'"),
        (("node", "--app", "quartzpy.cron:dayly_at"), 2, "quartzpy.cron has no 'dayly_at'; did you mean daily_at?"),
        (("cron", "nonsense"), 2, "expected 6 or 7 fields (got 1); a crontab line has five"),
        (("plan", "nowhere.toml"), 2, "nowhere.toml: cannot be read: No such file or directory\n"),
        (("node", "--app", "nowhere:x"), 2, "--app: 'nowhere' cannot be imported: No module named 'nowhere'"),
        (("import", "quartz", "--from", "nowhere"), 2, "--from: must be a URL, of JDBC (jdbc:postgresql://"),
        (("delete", "trigger", "a"), 8, "Delete trigger DEFAULT.a? Nobody can be asked"),
        (("drain", "node-1"), 5, "there is no node 'node-1'; no node is running"),
        (("trigger", "job", "--data", "[1]"), 2, "must be a JSON object"),
        (("trigger", "job", "--data", "{"), 2, "is not JSON"),
        (("trigger", "job", "--data", "@/nowhere"), 2, "No such file"),
        (("reschedule", "a", "0 0 25 * * ?"), 2, "hours field"),
        (("backfill", "a", "--from", "1h"), 7, "has no fire time in this range"),
    ],
)
def test_what_cannot_be_done_says_why_and_changes_nothing(
    three: Terminal, arguments: tuple[str, ...], status: int, message: str
) -> None:
    before = [*three.scheduler.triggers()], [*three.scheduler.jobs()]
    done = three.run(*arguments)
    assert (done.status, done.out) == (status, ""), done
    assert message in done.err
    assert "Traceback" not in done.err
    assert ([*three.scheduler.triggers()], [*three.scheduler.jobs()]) == before


def test_jobs_are_disabled_enabled_and_deleted(three: Terminal) -> None:
    three.ok("disable", "job")
    assert three.scheduler.job(JobKey("job")).mode is JobMode.DISABLED
    assert three.run("trigger", "job").status == 9
    three.ok("enable", "--mode", "disabled")
    assert three.scheduler.job(JobKey("job")).mode is JobMode.ENABLED
    three.ok("skip-next", "a", "--count", "2")
    record = three.scheduler.trigger_record(TriggerKey("a"))
    assert record is not None
    assert record.next_fire_time == LATER + timedelta(hours=2)
    three.ok("delete", "trigger", "a", "--yes")
    assert three.scheduler.trigger_state(TriggerKey("a")) is PublicState.NONE
    three.ok("delete", "job", "--all", "--yes")
    assert not list(three.scheduler.jobs())


def test_one_of_several_that_cannot_be_done_is_reported(three: Terminal) -> None:
    three.scheduler.pause_trigger(TriggerKey("a"))
    with_error = three.run("reset", "a", "b")
    assert with_error.status == 10
    assert re.findall(r"^  (DEFAULT\.[ab]): .*not in ERROR", with_error.err, re.MULTILINE) == ["DEFAULT.a", "DEFAULT.b"]


def test_a_schedule_is_previewed_and_an_error_is_shown_in_its_place(terminal: Terminal) -> None:
    nightly = CronTrigger("0 0 2 ? * MON-FRI", "nightly", time_zone="Europe/Berlin")
    terminal.scheduler.schedule_job(JobDetail(Quick, "job"), nightly)
    done = terminal.run("reschedule", "nightly", "0 0 2 ? * MON-FRU")
    assert done.status == 2
    assert done.err.splitlines()[1:] == ["  0 0 2 ? * MON-FRU", "                ^"]
    preview = terminal.ok("reschedule", "nightly", "30 4 * * *", "--dry-run")
    assert preview.startswith("would reschedule trigger DEFAULT.nightly\n")
    assert "Next fire times" in preview
    assert "04:30:00" in preview
    assert "0 0 2 ? * MON-FRI" in terminal.ok("show", "trigger", "nightly")
    terminal.ok("reschedule", "nightly", "30 4 * * *", "--reason", "the backup runs at two")
    details = terminal.ok("show", "trigger", "nightly")
    assert "30 4 * * *" in details
    assert "Europe/Berlin" in details, "the zone stays"


class Failing(Job):
    def execute(self, context: JobExecutionContext) -> None:
        if context.job_data["fail"]:
            raise ValueError("no such region")


def test_a_job_is_run_and_waited_for_and_run_again(terminal: Terminal) -> None:
    scheduler = terminal.scheduler
    scheduler.schedule_job(JobDetail(Failing, "job", data={"fail": False}), later("t"))
    scheduler.start()
    done = terminal.run("trigger", "job", "--wait", "20s")
    assert done.status == 0, done
    assert "SUCCEEDED" in done.err
    done = terminal.run("trigger", "job", "--data", '{"fail": true}', "--wait", "20s")
    assert done.status == 1
    assert "FAILED: ValueError: no such region" in done.err
    [failed] = scheduler.executions(state="FAILED")
    assert "runs again" in terminal.ok("run-again", str(failed.fire_id))
    assert scheduler.wait_until_recorded(3, timedelta(seconds=20))


def test_past_fire_times_are_backfilled_after_a_question(terminal: Terminal) -> None:
    now = datetime.now(UTC)
    hourly = SimpleTrigger("hourly", start_time=now - timedelta(hours=5, minutes=1), interval=timedelta(hours=1))
    terminal.scheduler.schedule_job(JobDetail(Quick, "job"), hourly)
    assert terminal.run("backfill", "hourly", "--from", "3h").status == 8
    assert "would run the job for 3 fire times of trigger DEFAULT.hourly: " in terminal.ok(
        "backfill", "hourly", "--from", "3h", "--dry-run"
    )
    assert "3 runs of trigger DEFAULT.hourly were stored" in terminal.ok("backfill", "hourly", "--from", "3h", "--yes")
    assert terminal.run("backfill", "hourly", "--from", "5h", "--max-runs", "2", "--yes").status == 2


def test_a_node_is_drained_and_resumed_from_elsewhere(terminal: Terminal) -> None:
    terminal.scheduler.start()
    node = terminal.scheduler.instance_id
    assert node is not None
    terminal.ok("drain", node)
    assert "draining" in terminal.ok("nodes").lower()
    assert terminal.ok("health", "--node", node) == "ok: 1 of 1 node is alive\n"
    assert terminal.run("health", "--node", node, "--ready").status == 1
    assert terminal.run("health", "--ready").out.startswith("no node takes triggers")
    terminal.ok("resume-node", node)
    assert terminal.run("health", "--ready").status == 0
