"""The claims and executions that an epoch holds: released, rejected, and compared with what its node has in hand."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from quartzpy.store.postgresql.connection.listen import news
from quartzpy.store.postgresql.connection.pipeline import Result
from quartzpy.store.postgresql.connection.session import SqlSession, require_epoch
from quartzpy.store.postgresql.schema.rows import by_outcome
from quartzpy.store.postgresql.schema.sql_files import SqlFile
from quartzpy.store.protocol import Holdings, Node, Notification, Reconciliation
from quartzpy.texts import storable_text

_SQL = SqlFile("steps/holdings.sql")
FORGET = _SQL("forget", named=True)
FORGET_ALL = _SQL("forget")
STILL_CLAIMED = _SQL("still_claimed")
RELEASE = _SQL("release")
RELEASE_OTHERS = _SQL("release", all_but=True)
REJECT = _SQL("reject")
HOLDINGS = _SQL("holdings")
UNKNOWN_FIRES = _SQL("unknown_fires")


def release(session: SqlSession, node: Node, fire_ids: Collection[int]) -> frozenset[int]:
    """Release claims; see `JobStore.release`."""
    if not fire_ids:
        # All nodes look at once for what this one leaves to them, as after a resumption.
        session.unlocked(news(session, Notification.RESUMED))
        return frozenset()
    values = {"epoch": node.epoch, "fire_ids": list(fire_ids)}
    *_, remaining = session.locked(
        session.bind(RELEASE, **values, channel=session.channel),
        session.bind(FORGET, **values),
        session.bind(STILL_CLAIMED, **values, instance=node.instance_id),
    )
    _, still_claimed, _ = require_epoch(node, remaining)
    return frozenset(still_claimed)


def reject(session: SqlSession, node: Node, reasons: Mapping[int, str]) -> None:
    """Put claimed triggers into ERROR; see `JobStore.reject`."""
    if reasons:
        session.locked(
            session.bind(
                REJECT,
                epoch=node.epoch,
                fire_ids=list(reasons),
                reasons=[storable_text(reason) for reason in reasons.values()],
            )
        )


def holdings(session: SqlSession, node: Node) -> Holdings:
    """Return the claims and executions of an epoch; see `JobStore.holdings`."""
    [held] = session.read(session.bind(HOLDINGS, instance=node.instance_id, epoch=node.epoch))
    return _holdings(node, held)


def _holdings(node: Node, held: Result) -> Holdings:
    now, claims, executions = require_epoch(node, held)
    return Holdings(now, frozenset(claims), frozenset(executions))


def reconcile(
    session: SqlSession, node: Node, *, claims: Collection[int], executions: Collection[int]
) -> Reconciliation:
    """Reconcile the store's rows with the node's; see `JobStore.reconcile`."""
    values = {"epoch": node.epoch, "claims": list(claims)}
    fires, released, _, held = session.locked(
        session.bind(UNKNOWN_FIRES, epoch=node.epoch, executions=list(executions)),
        session.bind(RELEASE_OTHERS, **values, channel=session.channel),
        session.bind(FORGET_ALL, epoch=node.epoch),
        session.bind(HOLDINGS, instance=node.instance_id, epoch=node.epoch),
    )
    return Reconciliation(
        by_outcome(fires.rows)[0], frozenset(fire_id for fire_id, _ in released.rows), _holdings(node, held)
    )
