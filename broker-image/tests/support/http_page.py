"""The node's HTTP port as a probe or Prometheus sees it."""

import re
import urllib.error
import urllib.request
from typing import NamedTuple

from processes import Node
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

# For a node's settings: any free port, which it names in its log.
ANY_PORT = {"pykraft.http.port": "0"}
PAGE_SECONDS_MAX = 20


class Page(NamedTuple):
    status: int
    text: str


def get(node: Node, path: str) -> Page:
    found = re.search(r"http port 127\.0\.0\.1:(\d+)", node.log_since_start())
    assert found, "the log does not name the HTTP port"
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{found[1]}{path}", timeout=PAGE_SECONDS_MAX
        ) as answer:
            return Page(answer.status, answer.read().decode())
    except urllib.error.HTTPError as refusal:
        with refusal:
            return Page(refusal.code, refusal.read().decode())


class Metrics:
    """One scrape, parsed by Prometheus' own parser."""

    def __init__(self, node: Node) -> None:
        page = get(node, "/metrics")
        assert page.status == 200, page
        self.text = page.text
        self.samples: list[Sample] = [
            sample
            for family in text_string_to_metric_families(page.text)
            for sample in family.samples
        ]

    def value(self, name: str, **labels: str) -> float:
        """The sample with exactly these labels; 0 when nothing was counted under them yet."""
        found = [s.value for s in self.samples if s.name == name and s.labels == labels]
        assert len(found) <= 1, f"{name}{labels} comes {len(found)} times"
        return found[0] if found else 0.0
