"""What a project's own tests see: each class by `manage.py test shop.tests.NAME`."""

from datetime import timedelta

from asgiref.sync import async_to_sync
from django.contrib.auth.models import Permission, User
from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import connection, transaction
from django.test import SimpleTestCase, TestCase, TransactionTestCase, override_settings
from django.utils import timezone

from quartzpy import JobKey, RetryPolicy, Scheduler
from quartzpy.errors import InvalidJobError, InvalidValueError, PluginStartError, SettingsError
from quartzpy.ext.django import in_transaction, node, task
from quartzpy.ext.django.backend import TaskResultDoesNotExist, tasks
from quartzpy.ext.django.project import database_url
from quartzpy.keys import MANUAL_TRIGGERS
from quartzpy.operations import Operations
from shop.jobs import tidy
from shop.models import Order
from shop.tasks import add, count, invoice, nightly, number, strange, unlucky

IMMEDIATE = {"default": {"BACKEND": "quartzpy.ext.django.ImmediateBackend"}}
LIMIT = timedelta(seconds=60)


def jobs() -> list[str]:
    with in_transaction() as methods:
        return [str(each.key) for each in methods.jobs()]


def clear() -> None:
    # Not by `scheduler()`: the connection that it keeps would prevent Django from dropping the test database.
    with in_transaction() as methods:
        methods.clear()


class Enqueueing(TestCase):
    """In the transaction of a test, which Django rolls back."""

    def test_a_task_is_ready_and_its_job_is_stored(self) -> None:
        result = add.enqueue(1, b=2)
        self.assertEqual((result.status, result.args, result.kwargs), ("READY", [1], {"b": 2}))
        self.assertLess(abs(result.enqueued_at - timezone.now()), LIMIT)
        self.assertEqual(jobs(), ["shop.tasks.add"])
        again = add.get_result(result.id)
        self.assertEqual((again.status, again.args, again.kwargs), ("READY", [1], {"b": 2}))
        self.assertEqual(again.enqueued_at, result.enqueued_at)

    def test_a_transaction_that_is_rolled_back_leaves_nothing(self) -> None:
        with self.assertRaises(LookupError), transaction.atomic():
            result = add.enqueue(1, 2)
            raise LookupError
        self.assertEqual(jobs(), [])
        with self.assertRaises(TaskResultDoesNotExist):
            add.get_result(result.id)

    def test_priority_instant_and_queue_are_those_of_the_trigger(self) -> None:
        later = timezone.now() + timedelta(hours=1)
        result = add.using(priority=90, run_after=later, queue_name="mails").enqueue(1, 2)
        invoice.enqueue(7)
        with in_transaction() as methods:
            [record] = [each for each in methods.triggers(group=MANUAL_TRIGGERS) if each.key.name == result.id]
            self.assertEqual((record.priority, record.next_fire_time), (95, later))
            groups = {str(each.key): methods.job(each.key).detail.execution_group for each in methods.jobs()}
        self.assertEqual(groups, {"shop.tasks.add@mails": "mails", "shop.tasks.invoice": "mails"})

    def test_awaited_as_well(self) -> None:
        result = async_to_sync(add.aenqueue)(1, 2)
        self.assertEqual(async_to_sync(add.aget_result)(result.id).status, "READY")

    def test_ids_that_nothing_has(self) -> None:
        for unknown in ("", "x", "7", "9" * 31, "f" * 32, "\0" * 32, "F" * 32):
            with self.assertRaises(TaskResultDoesNotExist, msg=unknown):
                add.get_result(unknown)

    def test_the_result_of_another_task_is_refused(self) -> None:
        with self.assertRaisesMessage(Exception, "shop.tasks.add"):
            invoice.get_result(add.enqueue(1, 2).id)

    def test_options_of_the_backend_and_of_the_decorator(self) -> None:
        unlucky.enqueue()
        with in_transaction() as methods:
            detail = methods.job(JobKey("tasks.unlucky", "shop")).detail
        self.assertEqual((detail.retry.attempts, detail.capture_logs, detail.durable), (2, "INFO", True))

    def test_a_task_without_a_transaction_of_the_caller(self) -> None:
        # The transaction of `TestCase` is a stand-in for none: the call begins its own inside it.
        self.assertTrue(connection.in_atomic_block)
        self.assertEqual(add.enqueue(1, 2).status, "READY")


class Running(TransactionTestCase):
    """With a node on the test database."""

    def setUp(self) -> None:
        self.addCleanup(clear)

    def test_results(self) -> None:
        order = Order.objects.create(customer="Ada")
        results = [
            add.enqueue(1, b=2),
            number.enqueue(word="name"),
            count.enqueue(5),
            unlucky.enqueue(),
            strange.enqueue(),
            invoice.enqueue(order.pk),
        ]
        with node() as running:
            self.assertTrue(running.wait_until_recorded(7, LIMIT))
        for result in results:
            result.refresh()
        added, numbered, counted, lucky, odd, sent = results
        self.assertEqual([result.status for result in results], [*["SUCCESSFUL"] * 4, "FAILED", "SUCCESSFUL"])
        self.assertEqual((added.return_value, counted.return_value, lucky.return_value), (3, 6, 2))
        self.assertEqual(numbered.return_value, [numbered.id, 1, "name"])
        self.assertEqual((lucky.attempts, len(lucky.worker_ids), len(lucky.errors)), (2, 2, 1))
        self.assertIs(lucky.errors[0].exception_class, ValueError)
        self.assertIn("bad luck", lucky.errors[0].traceback)
        self.assertIs(odd.errors[0].exception_class, TypeError)
        self.assertTrue(Order.objects.get(pk=order.pk).invoiced)
        self.assertLess(added.enqueued_at, added.finished_at)
        self.assertEqual(sent.task.func, invoice.func)

    def test_a_retry_that_waits_is_ready_and_not_failed(self) -> None:
        task(retry=RetryPolicy(attempts=2, delay="1h"))(unlucky)
        self.addCleanup(task(retry=RetryPolicy(attempts=2, delay="0.1s")), unlucky)
        result = unlucky.enqueue()
        with node() as running:
            self.assertTrue(running.wait_until_recorded(1, LIMIT))
        result.refresh()
        self.assertEqual((result.status, result.finished_at, len(result.errors)), ("READY", None, 1))

    def test_schedules_are_stored_at_the_start_of_a_node_in_the_zone_of_the_project(self) -> None:
        with node() as running:
            keys = [str(each.key) for each in running.triggers()]
            zones = {each.trigger.time_zone for each in running.triggers()}
            handle = running.trigger_job(JobKey("tasks.nightly", "shop"), data={"region": "us"})
            record = handle.wait(LIMIT)
            logged = running.trigger_job(JobKey("tasks.add", "shop"), data={"a": 1, "b": 2}).wait(LIMIT)
            running.schedule_job(tidy, timezone.now())
            self.assertTrue(running.wait_until_recorded(1, LIMIT))
        self.assertEqual(keys, ["shop.tasks.nightly", "shop.tasks.nightly-2"])
        self.assertEqual({str(zone) for zone in zones}, {"Europe/Berlin"})
        self.assertEqual(nightly.get_result(str(record.fire_id)).return_value, "us")
        self.assertIn("adding", logged.log)

    def test_a_schedule_that_is_gone_is_deleted_and_its_job_stays(self) -> None:
        with node():
            pass
        task(schedule="0 3 * * *")(nightly)
        self.addCleanup(task(schedule=["0 2 * * *", "0 3 * * SUN"], max_concurrent=1), nightly)
        with node() as running:
            self.assertEqual([str(each.key) for each in running.triggers()], ["shop.tasks.nightly"])
            self.assertIn("shop.tasks.nightly", [str(each.key) for each in running.jobs()])

    def test_an_older_version_changes_nothing(self) -> None:
        with override_settings(QUARTZPY={"NAME": "shop", "VERSION": "2.10"}), node():
            pass
        task()(nightly)
        self.addCleanup(task(schedule=["0 2 * * *", "0 3 * * SUN"], max_concurrent=1), nightly)
        with override_settings(QUARTZPY={"NAME": "shop", "VERSION": "2.9"}), node() as running:
            self.assertEqual(len(list(running.triggers())), 2)

    def test_a_schedule_without_the_arguments_of_its_task_ends_the_node(self) -> None:
        task(schedule="0 5 * * *")(add)
        self.addCleanup(task(), add)
        with self.assertRaisesMessage(PluginStartError, "missing a required argument: 'a'"):
            node().start()


class WithoutANode(TestCase):
    """With Django's own backend, which runs a task at once."""

    @override_settings(TASKS=IMMEDIATE)
    def test_the_immediate_backend_runs_tasks_with_options(self) -> None:
        self.assertEqual(add.enqueue(1, 2).return_value, 3)
        self.assertEqual(nightly.enqueue("us").return_value, "us")
        self.assertEqual(jobs(), [])


class Configuration(SimpleTestCase):
    """What is wrong is said."""

    def test_another_database(self) -> None:
        with (
            override_settings(QUARTZPY={"DATABASE": "other"}),
            self.assertRaisesMessage(ImproperlyConfigured, "sqlite"),
        ):
            database_url()

    def test_an_unknown_setting(self) -> None:
        with override_settings(QUARTZPY={"WORKRS": 3}), self.assertRaisesMessage(SettingsError, "workers"):
            node()

    def test_a_wrong_option(self) -> None:
        wrong = {"default": {"BACKEND": "quartzpy.ext.django.QuartzBackend", "OPTIONS": {"timeout": "soon"}}}
        with override_settings(TASKS=wrong), self.assertRaisesMessage(InvalidJobError, "timeout"):
            tasks.default_task_backend.options  # noqa: B018
        with self.assertRaisesMessage(TypeError, "tiemout"):
            task(tiemout="5s")(nightly)

    def test_the_checks_of_django_say_what_is_wrong(self) -> None:
        self.assertEqual(checks.run_checks(tags=["quartzpy"]), [])
        for wrong, words in (("DATABASE", "other is sqlite"), ("DATABASE", "nowhere"), ("WORKRS", "workers")):
            with override_settings(QUARTZPY={wrong: words.partition(" ")[0]}):
                [error] = checks.run_checks(tags=["quartzpy"])
            self.assertIn(words.replace("other", "DATABASES['other']"), error.msg)

    def test_a_wrong_schedule(self) -> None:
        for schedule in ("0 25 * * *", "", 5, [None], object()):
            with self.assertRaises(InvalidValueError, msg=schedule):
                task(schedule=schedule)

    def test_what_the_job_of_a_task_has_already(self) -> None:
        for options in ({"group": "x"}, {"name": "x"}, {"job": add}, {"durable": False}):
            wrong = {"default": {"BACKEND": "quartzpy.ext.django.QuartzBackend", "OPTIONS": options}}
            with self.assertRaisesMessage(InvalidJobError, "is no option of a task"):
                task(**options)
            with override_settings(TASKS=wrong), self.assertRaisesMessage(InvalidJobError, "is no option of a task"):
                tasks.default_task_backend.options  # noqa: B018


class Admin(TransactionTestCase):
    """The pages of the admin, and who may do what."""

    def setUp(self) -> None:
        self.addCleanup(clear)
        with node() as running:
            self.failed = add.enqueue(1, "x")
            running.wait_until_recorded(1, LIMIT)
        self.ada = User.objects.create_superuser("ada")
        self.client.force_login(self.ada)

    def act(self, model: str, **values: object) -> list[str]:
        answer = self.client.post(f"/admin/quartzpy/{model}/", values, follow=True)
        self.assertEqual(answer.status_code, 200)
        return [str(message) for message in answer.context["messages"]]

    def test_lists(self) -> None:
        self.assertContains(self.client.get("/admin/"), "/admin/quartzpy/incident/")
        self.assertContains(self.client.get("/admin/quartzpy/job/"), "shop.tasks.nightly")
        self.assertContains(self.client.get("/admin/quartzpy/trigger/?state=WAITING"), "0 3 * * SUN")
        self.assertNotContains(self.client.get("/admin/quartzpy/job/?contains=night"), "shop.tasks.add")
        self.assertContains(self.client.get("/admin/quartzpy/execution/?state=FAILED"), "TypeError")
        self.assertEqual(self.client.get("/admin/quartzpy/incident/").status_code, 200)
        wrong = self.client.get("/admin/quartzpy/trigger/?state=ODD", follow=True)
        self.assertIn("ODD", str([str(message) for message in wrong.context["messages"]]))

    def test_actions_and_the_audit_log(self) -> None:
        [said] = self.act("job", action="pause", key="shop\ttasks.nightly", reason="holidays")
        self.assertIn("Paused", said)
        [said] = self.act("job", action="trigger", key="shop\ttasks.nightly")
        self.assertIn("shop.tasks.nightly", said)
        with in_transaction() as methods:
            fire_id = next(iter(methods.executions())).fire_id
        self.act("execution", action="run_again", key=str(fire_id))
        [said] = self.act("trigger", action="pause")
        self.assertIn("choose", said)
        with Scheduler(database_url(), name="shop") as operated:
            entries = [(entry.actor, entry.action, entry.reason) for entry in Operations(operated).audit_log()]
        self.assertIn(("ada", "pause", "holidays"), entries)
        self.assertIn("run_again", [action for _, action, _ in entries])

    def test_permissions_are_roles(self) -> None:
        bob = User.objects.create_user("bob", is_staff=True)
        self.client.force_login(bob)
        self.assertEqual(self.client.get("/admin/quartzpy/job/").status_code, 403)
        offered = {}
        for word in ("view", "operate", "administer"):
            bob.user_permissions.set([Permission.objects.get(codename=f"{word}_job")])
            page = self.client.get("/admin/quartzpy/job/")
            offered[word] = {action.name for action in page.context["quartzpy_actions"]}
        self.assertEqual(offered["view"], set())
        self.assertEqual(offered["operate"], {"trigger", "cancel", "pause", "resume"})
        self.assertEqual(offered["administer"] - offered["operate"], {"enable", "disable", "delete"})
        bob.user_permissions.set([Permission.objects.get(codename="operate_job")])
        refused = self.client.post("/admin/quartzpy/job/", {"action": "delete", "key": "shop\ttasks.add"})
        self.assertEqual(refused.status_code, 403)
        self.assertEqual(self.client.get("/admin/quartzpy/trigger/").status_code, 403)
