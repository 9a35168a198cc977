"""A batch that is not appended, and how much of why the client is told."""

from collections.abc import Sequence

from pykraft.protocol.errors import ErrorCode, KafkaError

# The index of a record in its batch, and what is wrong with it.
RecordError = tuple[int, str | None]


class RefusedBatchError(KafkaError):
    """Besides the code, a client learns only what Kafka's answer to the same batch has.

    The log's start when Kafka had come as far as its log, the reason when Kafka gives one, and of
    records that were looked at one by one, which of them are wrong.
    """

    def __init__(
        self,
        code: ErrorCode,
        reason: str,
        *,
        tells_log_start: bool = False,
        tells_reason: bool = False,
        record_errors: Sequence[RecordError] = (),
    ) -> None:
        super().__init__(code, reason)
        self.tells_log_start = tells_log_start
        self.tells_reason = tells_reason
        self.record_errors = record_errors
