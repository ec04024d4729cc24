"""The actions on nodes."""

from __future__ import annotations

from quartzpy.errors import ObjectNotFoundError
from quartzpy.operations.actions.base import BaseActions
from quartzpy.operations.actions.log import Change
from quartzpy.operations.results import ActionResult
from quartzpy.operations.selection import Subject, named
from quartzpy.scheduler.transactions import OwnTransactionMethods
from quartzpy.states import NodeMode
from quartzpy.texts import did_you_mean, quoted


class NodeActions(BaseActions):
    """Commands to nodes, which each carries out within about a second."""

    def drain(self, node: str, *, reason: str = "") -> ActionResult:
        """Let a node claim nothing more and give back what waits for a worker, until `resume_node` or its restart.

        Raises:
            ObjectNotFoundError: no such node is registered.
        """
        return self._command("drain", node, NodeMode.DRAINING, reason)

    def standby(self, node: str, *, reason: str = "") -> ActionResult:
        """Let a node claim nothing more, until `resume_node` or its restart.

        Raises:
            ObjectNotFoundError: no such node is registered.
        """
        return self._command("standby", node, NodeMode.STANDBY, reason)

    def resume_node(self, node: str, *, reason: str = "") -> ActionResult:
        """End `drain` or `standby` of a node.

        Raises:
            ObjectNotFoundError: no such node is registered.
        """
        return self._command("resume_node", node, NodeMode.RUNNING, reason)

    def _command(self, action: str, node: str, mode: NodeMode, reason: str) -> ActionResult:
        def change(transaction: OwnTransactionMethods) -> Change:
            nodes = {one.instance_id: one for one in transaction.store.list_nodes().nodes}
            if node not in nodes or transaction.store.set_node_mode(node, mode) is None:
                hint = did_you_mean(node, nodes, "nodes") if nodes else "no node is running"
                raise ObjectNotFoundError(f"there is no node {quoted(node)}; {hint}")
            return Change(f"Node {node} was told to be {mode}.", {"mode": nodes[node].mode}, {"mode": mode}, (node,))

        return self._one(action, named(Subject.NODE, node), reason, change)
