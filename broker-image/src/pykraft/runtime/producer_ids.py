"""Producer ids for idempotent producers, from blocks that the controller allots and records.

An id is never given twice, also over restarts: a block counts as used when it is allotted.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from pykraft.handlers.context import ControllerGateway
from pykraft.protocol.errors import ErrorCode, KafkaError

# Requests that may wait for a block; more are told to come again.
WAITING_MAX = 10_000


class BlockProducerIds:
    def __init__(self, node_id: int, controller: ControllerGateway) -> None:
        self.node_id = node_id
        self.controller = controller
        self.broker_epoch = -1
        self.next_id = 0
        self.end_id = 0
        self.asking = False
        self.waiting: deque[tuple[Callable[[int], None], Callable[[int], None]]] = deque()

    def next(self, done: Callable[[int], None], failed: Callable[[int], None]) -> None:
        if self.next_id < self.end_id:
            self.next_id += 1
            done(self.next_id - 1)
            return
        if len(self.waiting) >= WAITING_MAX:
            failed(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            return
        self.waiting.append((done, failed))
        if not self.asking:
            self._ask()

    def _ask(self) -> None:
        self.asking = True
        try:
            self.controller.submit(
                lambda controller: controller.allocate_producer_ids(
                    self.node_id, self.broker_epoch
                ),
                self._granted,
            )
        except KafkaError as error:
            self._granted({"error_code": error.code})

    def _granted(self, reply: Mapping[str, Any]) -> None:
        self.asking = False
        waiting, self.waiting = self.waiting, deque()
        code = int(reply["error_code"])
        if code != ErrorCode.NONE:
            for _, failed in waiting:
                failed(code)
            return
        self.next_id = int(reply["producer_id_start"])
        self.end_id = self.next_id + int(reply["producer_id_len"])
        for done, failed in waiting:
            self.next(done, failed)
