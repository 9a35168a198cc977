"""Is the node ready for clients? Every reason against it is one line that a human can act on."""

from pykraft.ops.view import NodeView

# The broker replays metadata as they are committed. A few records are on their way at any time;
# this many mean that it is still catching up and would answer from an old picture.
METADATA_LAG_MAX = 1000


def reasons_not_ready(view: NodeView) -> list[str]:
    status = view.status()
    reasons = []
    if status.shutting_down:
        reasons.append("shutting down")
    if status.fenced:
        reasons.append("fenced: the controller has not (yet) admitted this broker")
    if status.metadata_lag > METADATA_LAG_MAX:
        reasons.append(
            f"metadata not caught up: at offset {status.metadata_offset}"
            f" of {status.metadata_end_offset}"
        )
    reasons += [f"log directory offline: {path}" for path, online in view.log_dirs() if not online]
    return reasons
