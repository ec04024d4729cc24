"""The actions of operators, each declared once.

The command, the form of the page and its button, the JSON body and the entry of the audit log are derived from here.
The methods of `Actions` carry them out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from quartzpy.operations.actions.action import Action, Role
from quartzpy.operations.actions.inputs import Choice, Data, EndInput, Flag, Instant, LongText, Number, Text
from quartzpy.operations.selection import Subject
from quartzpy.scheduler.methods.pausing import MAX_SKIPPED
from quartzpy.scheduler.past_fires import MAX_RUNS
from quartzpy.scheduler.typed_text import FUTURE
from quartzpy.states import ExecutionState, Missed, TriggerState

_MISSED = Choice(
    "missed",
    "What becomes of the fires that were missed meanwhile: the misfire instruction, none, or one run now.",
    "Fires that were missed",
    default=str(Missed.MISFIRE),
    words={
        Missed.MISFIRE: "as the misfire instruction of each trigger says",
        Missed.SKIP: "are skipped",
        Missed.ONCE: "are made up for by one fire, now",
    },
)
_PAUSABLE = {
    Subject.TRIGGER: "A trigger, where a job has the same key.",
    Subject.JOB: "A job, where a trigger has the same key: the triggers that it has now.",
    Subject.TRIGGER_GROUP: "The triggers of this group; * may stand in front and at the end.",
    Subject.JOB_GROUP: "The triggers of this group of jobs; * may stand in front and at the end.",
    Subject.EVERYTHING: "All triggers.",
}
_PAUSABLE_BY = (
    "KEY is a job or a trigger: GROUP.NAME, or NAME for the group DEFAULT. Filters select present triggers. A group or"
    " everything includes the triggers that are stored later, unless filters are given."
)
_EVEN_IF_PAUSED = Flag(
    "even_if_paused",
    "Store the run also where a pause delays it until it is resumed.",
    "Also if a pause makes it wait",
    default=False,
)

SECTIONS: Mapping[str, tuple[Action, ...]] = {
    "Run": (
        Action(
            name="trigger",
            role=Role.OPERATOR,
            subjects={
                Subject.JOB: "Run JOB now, outside its schedule.\n\nJOB is GROUP.NAME, or NAME for the group DEFAULT."
            },
            is_single=True,
            inputs=(
                Data(
                    "data",
                    "Job data for this run, in addition to the job's own.",
                    "Data",
                    hint="a JSON object; it overrides the data of the job, key by key",
                    placeholder='{"region": "eu"}',
                ),
                _EVEN_IF_PAUSED,
            ),
            follows="run",
            question="Run",
            title="Trigger",
            button="Trigger now",
            label="Trigger now",
            explanation="The job runs once, now, beside its schedule.",
            style="primary",
        ),
        Action(
            name="cancel",
            role=Role.OPERATOR,
            subjects={
                Subject.EXECUTION: (
                    "Ask running executions to stop.\n\n"
                    "They may run on any node. Filters select only those that are running."
                ),
                Subject.JOB: "",
            },
            states=(ExecutionState.PROCESSING,),
            question="Cancel",
            past_tense="Asked to stop:",
            explanation="The running execution is asked to stop.",
            style="danger",
        ),
        Action(
            name="run_again",
            role=Role.OPERATOR,
            subjects={
                Subject.EXECUTION: (
                    "Run executions that have ended once more.\n\nEach runs with the data of the first run."
                )
            },
            inputs=(_EVEN_IF_PAUSED,),
            follows="repeat",
            question="Run again",
            past_tense="Run again",
            explanation="The job runs again, with the data of that run.",
            style="primary",
        ),
        Action(
            name="backfill",
            role=Role.ADMIN,
            subjects={
                Subject.TRIGGER: (
                    "Run past fire times of TRIGGER.\n\nIts job runs once for each instant of the schedule in a range."
                    " TRIGGER is GROUP.NAME, or NAME for the group DEFAULT."
                )
            },
            is_single=True,
            inputs=(
                Instant("start", "The earliest fire time.", "From", is_required=True),
                Instant("end", "The fire times are before this instant.", "Until before", is_required=True),
                Number(
                    "max_runs",
                    "Refuse more runs than this.",
                    "Most fires",
                    hint="more of them are refused",
                    default=1_000,
                    maximum=MAX_RUNS,
                ),
                _EVEN_IF_PAUSED,
            ),
            question="Run the job for",
            title="Backfill",
            explanation=(
                "The job runs once for each fire time of the schedule in this span, also for those that it ran for"
                " before."
            ),
        ),
    ),
    "Hold back": (
        Action(
            name="pause",
            role=Role.OPERATOR,
            subjects=_PAUSABLE,
            inputs=(
                EndInput(
                    "end",
                    "The end of the pause: an instant with an offset, or a span such as 2h. Without it, the pause lasts"
                    " until somebody ends it.",
                    "Until",
                    hint="a span such as 2h, or an instant; empty: until somebody resumes it",
                    placeholder="2h",
                ),
                replace(_MISSED, label="Fires that were missed at that time"),
            ),
            help="Pause jobs, triggers, groups, or everything.\n\n" + _PAUSABLE_BY,
            question="Pause",
            past_tense="Paused",
            explanation="Nothing fires until it is resumed, or until its end. Running executions continue.",
            undone_by="resume",
        ),
        Action(
            name="resume",
            role=Role.OPERATOR,
            subjects=_PAUSABLE,
            inputs=(_MISSED,),
            help="Resume what was paused.\n\n" + _PAUSABLE_BY,
            question="Resume",
            past_tense="Resumed",
            explanation="The schedule continues.",
            style="primary",
            undone_by="pause",
        ),
        Action(
            name="set_window",
            role=Role.ADMIN,
            subjects={
                Subject.WINDOW: (
                    "Store or change the maintenance window WINDOW.\n\nIt pauses a group, or everything, each time from"
                    " --cron for --duration, or once from --start to --end. Executions that run go on."
                )
            },
            is_single=True,
            inputs=(
                Text(
                    "cron",
                    "When it begins, each time: a crontab line or a Quartz expression.",
                    "Begins",
                    hint="a cron expression; empty: once, from the start to the end below",
                    placeholder="0 2 * * SUN",
                    takes_focus=True,
                ),
                Text(
                    "duration",
                    "How long it lasts each time, by the clock of the zone.",
                    "For",
                    placeholder="4h",
                ),
                Text(
                    "zone",
                    "The time zone of the cron expression.",
                    "Time zone",
                    placeholder="Europe/Berlin",
                    field="in_zone",
                ),
                Instant("start", "The beginning of a window that comes once.", "Or once from", direction=FUTURE),
                Instant("end", "The end of a window that comes once.", "Until", direction=FUTURE),
                Text(
                    "trigger_group",
                    "The group of triggers that it pauses; without a group it pauses everything.",
                    "Pauses the group of triggers",
                    hint="without a group it pauses everything",
                ),
                Text("job_group", "The group of jobs that it pauses.", "Or the group of jobs"),
                _MISSED,
            ),
            question="Store",
            title="Maintenance",
            button="Store the window",
            label="Change",
            explanation=(
                "The triggers concerned are paused when it begins, and resumed when it ends. The reason is shown with"
                " them."
            ),
        ),
        Action(
            name="delete_window",
            role=Role.ADMIN,
            subjects={
                Subject.WINDOW: "Delete the maintenance window WINDOW. What it pauses at present is resumed at once."
            },
            is_single=True,
            question="Delete",
            button="Delete the window",
            label="Delete",
            explanation="It does not begin again. What it pauses at present is resumed within seconds.",
            style="danger",
        ),
        Action(
            name="skip_next",
            role=Role.OPERATOR,
            subjects={Subject.TRIGGER: "Skip the next fires of triggers."},
            inputs=(
                Number(
                    "count", "The number of fires to skip.", "Number of fires to skip", default=1, maximum=MAX_SKIPPED
                ),
            ),
            question="Skip the next fire of",
            count_question="Skip the next {count} fires of",
            past_tense="Skipped the next fire of",
            button="Skip",
            label="Skip the next",
            explanation="The schedule continues after the fires that are skipped.",
        ),
        Action(
            name="enable",
            role=Role.ADMIN,
            subjects={Subject.JOB: "Enable jobs that are disabled or run only by hand."},
            inputs=(replace(_MISSED, default=str(Missed.SKIP)),),
            question="Enable",
            past_tense="Enabled",
            explanation="Its triggers fire again.",
            undone_by="disable",
        ),
        Action(
            name="disable",
            role=Role.ADMIN,
            subjects={Subject.JOB: "Disable jobs.\n\nNone of their triggers fires, and they cannot be run by hand."},
            question="Disable",
            past_tense="Disabled",
            explanation="None of its triggers fires, and it cannot be triggered.",
            undone_by="enable",
        ),
    ),
    "Change": (
        Action(
            name="reschedule",
            role=Role.ADMIN,
            subjects={
                Subject.TRIGGER: (
                    "Give TRIGGER another SCHEDULE.\n\nIts data, priority, calendar, end time and pause stay. SCHEDULE"
                    ' is a cron expression ("0 2 * * MON-FRI" or Quartz\'s "0 0 2 ? * MON-FRI"), an interval'
                    ' ("every 15m"), or the instant of a single fire ("2026-12-24T18:00+01:00"). --dry-run shows its'
                    " next fire times."
                )
            },
            is_single=True,
            inputs=(
                Text(
                    "text",
                    "A cron expression, an interval, or an instant.",
                    "Schedule",
                    hint="cron of five to seven fields, an interval such as “every 15m”, or an instant",
                    is_required=True,
                    field="schedule",
                ),
                Text(
                    "zone",
                    "The time zone of a cron expression.",
                    "Time zone",
                    hint="of the clock that the cron fields mean; empty: unchanged",
                    placeholder="Europe/Berlin",
                    field="in_zone",
                ),
            ),
            question="Reschedule",
            title="Edit the schedule of",
            button="Save the schedule",
            label="Edit schedule",
            explanation="Data, priority, calendar, end time and a pause stay as they are.",
        ),
        Action(
            name="refresh_calendar",
            role=Role.ADMIN,
            # `quartzpy refresh` reads the events from a file, and shows the difference unless it is told to store it.
            subjects={Subject.CALENDAR: ""},
            is_single=True,
            inputs=(
                Text(
                    "years",
                    "The years whose dates are replaced: 2027 or 2027-2029.",
                    "Years",
                    hint="2027 or 2027-2029; the dates of other years stay",
                    placeholder="2027-2029",
                    is_required=True,
                ),
                Text(
                    "exchange",
                    "The code of an exchange (extra exchanges).",
                    "From an exchange",
                    placeholder="XNYS",
                ),
                Text(
                    "country",
                    "The code of a country, or of a part of it (extra holidays).",
                    "Or from a country",
                    placeholder="DE-BY",
                ),
                LongText("ics", "The events of a file of iCalendar (RFC 5545).", "Or from the text of an ICS file"),
                Text(
                    "zone",
                    "The time zone of the calendar; that of the stored one by default.",
                    "Time zone",
                    hint="empty: that of the stored calendar",
                    placeholder="Europe/Berlin",
                    field="in_zone",
                ),
                Flag(
                    "weekends",
                    "Exclude Saturdays and Sundays as well, in a new calendar.",
                    "A new calendar excludes Saturdays and Sundays as well",
                    default=False,
                ),
                Flag(
                    "update_triggers",
                    "Also compute the next fire times of its triggers again.",
                    "Compute the next fire times of its triggers again",
                    default=False,
                ),
            ),
            question="Refresh",
            button="Store the calendar",
            label="Refresh",
            explanation=(
                "The dates of these years are replaced by those of the source. Other years and the calendars below it"
                " stay. Nothing is stored before you have seen the difference."
            ),
        ),
        Action(
            name="set_limit",
            role=Role.ADMIN,
            subjects={
                Subject.LIMIT: (
                    "Set LIMIT, which jobs share, to VALUE.\n\nVALUE is a number of concurrent executions (5), a rate"
                    ' of fires ("10/minute"), or both ("5, 10/minute"). It holds at once, in the whole cluster: what'
                    " runs goes on, and what waits is decided anew. `quartzpy limits` lists the limits."
                )
            },
            is_single=True,
            inputs=(
                Text(
                    "value",
                    "A number of concurrent executions, a rate of fires, or both.",
                    "Limit",
                    hint="5 concurrent executions; “10/minute”, a rate of fires; or both: “5, 10/minute”",
                    placeholder="5",
                    is_required=True,
                    is_argument=True,
                ),
            ),
            question="Set",
            title="Set",
            button="Set the limit",
            label="Set",
            explanation="It holds at once, in the whole cluster. What runs goes on, and what waits is decided anew.",
        ),
        Action(
            name="delete_limit",
            role=Role.ADMIN,
            subjects={Subject.LIMIT: "Remove LIMIT, which no job may share any more."},
            is_single=True,
            question="Remove",
            explanation="No job may share it any more.",
            style="danger",
        ),
        Action(
            name="reset",
            role=Role.OPERATOR,
            subjects={
                Subject.TRIGGER: ("Return triggers in ERROR to their schedules.\n\nFilters select only those in ERROR.")
            },
            states=(TriggerState.ERROR,),
            follows="repeat",
            question="Reset",
            past_tense="Reset",
            title="Reset from error:",
            button="Reset",
            label="Reset from error",
            explanation="The trigger returns from ERROR to its schedule. Remove the cause first.",
            style="primary",
        ),
        Action(
            name="delete",
            role=Role.ADMIN,
            subjects={
                Subject.JOB: "Delete jobs with all their triggers. Executions that are running continue.",
                Subject.TRIGGER: "Delete triggers, and jobs that are not durable with their last trigger.",
            },
            help="Delete jobs with all their triggers, or triggers.",
            question="Delete",
            past_tense="Deleted",
            explanation=(
                "A job is deleted with all its triggers; a trigger, with its job if that has no other and is not"
                " durable. The history stays, and running executions continue."
            ),
            style="danger",
            always_asks=True,
        ),
    ),
    "Take note": (
        Action(
            name="acknowledge",
            role=Role.OPERATOR,
            subjects={
                Subject.INCIDENT: (
                    "Acknowledge an open incident by its number, INCIDENT. --reason is required.\n\n"
                    "It is then listed apart until it is over, becomes worse, has another cause, or --until passes."
                )
            },
            is_single=True,
            inputs=(
                Instant(
                    "until",
                    "The instant at which it counts again, even if it is the same.",
                    "Until",
                    hint="empty: as long as it lasts",
                    direction=FUTURE,
                ),
            ),
            question="Acknowledge",
            needs_reason=True,
            explanation=(
                "It is listed apart, with your name and reason, until it is over. It comes back when it becomes worse,"
                " has another cause or begins anew, and at the instant that you give."
            ),
            undone_by="unacknowledge",
        ),
        Action(
            name="unacknowledge",
            role=Role.OPERATOR,
            subjects={Subject.INCIDENT: "Show INCIDENT, which somebody has acknowledged, among the others again."},
            is_single=True,
            question="Show again",
            title="Show again:",
            button="Show again",
            label="Show again",
            explanation="It counts again, as if nobody had taken note of it.",
            undone_by="acknowledge",
        ),
    ),
    "Command a node": (
        Action(
            name="drain",
            role=Role.OPERATOR,
            subjects={
                Subject.NODE: (
                    "Let NODE finish what it runs.\n\nIt takes nothing more and gives back what waits for a worker,"
                    " until `resume-node` or its restart."
                )
            },
            is_single=True,
            question="Drain",
            explanation=(
                "The node takes nothing more, and gives back what waits there. When it is idle, its process can be"
                " stopped."
            ),
            undone_by="resume_node",
        ),
        Action(
            name="standby",
            role=Role.OPERATOR,
            subjects={
                Subject.NODE: "Let NODE take nothing more.\n\nThis lasts until `resume-node` or its restart.",
            },
            is_single=True,
            question="Put into standby",
            title="Put in standby:",
            button="Put in standby",
            label="Standby",
            explanation="The node takes nothing more until it is resumed.",
            undone_by="resume_node",
        ),
        Action(
            name="resume_node",
            role=Role.OPERATOR,
            subjects={Subject.NODE: "End `drain` or `standby` of NODE."},
            is_single=True,
            question="Resume",
            explanation="The node takes triggers again.",
            style="primary",
        ),
    ),
}
"""The actions by what they are for, in the order in which they are listed."""
ACTIONS: Mapping[str, Action] = {action.name: action for actions in SECTIONS.values() for action in actions}
"""The actions by their names."""
