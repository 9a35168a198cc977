"""The YAML of a cluster: what it says, and the line that says what is wrong with it."""

from pathlib import Path

import pytest

from pykraft.local.spec import ClusterSpec, SpecError, TopicSpec, parse_cluster
from pykraft.local.up import load_spec

CLUSTER = """
apiVersion: pykraft.io/v1alpha1
kind: KafkaCluster
metadata: {name: demo}
spec: SPEC
"""
TOPIC = """
---
apiVersion: pykraft.io/v1alpha1
kind: Topic
metadata: {name: orders}
spec: SPEC
"""
EXAMPLES = Path(__file__).parents[4] / "manifests" / "examples"


def cluster(spec="{}", *topics):
    text = CLUSTER.replace("SPEC", spec) + "".join(TOPIC.replace("SPEC", each) for each in topics)
    return parse_cluster(text)


def refusal(spec="{}", *topics):
    with pytest.raises(SpecError) as caught:
        cluster(spec, *topics)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_cluster_that_says_nothing_is_one_combined_node():
    assert cluster() == ClusterSpec(name="demo", brokers=1, controllers=0)


def test_the_quickstart_is_one_node_with_three_partitions_of_greetings():
    spec = load_spec(EXAMPLES / "quickstart.yaml", None, None)
    assert (spec.name, spec.brokers, spec.controllers) == ("quickstart", 1, 0)
    assert [(topic.name, topic.partitions) for topic in spec.topics] == [("greetings", 3)]
    assert spec.ignored == ()


def test_numbers_and_truths_become_the_texts_that_kafka_prints():
    spec = cluster(
        "{config: {num.partitions: 3, log.cleaner.enable: true, a: 0.5}}",
        "{clusterRef: demo, topicName: Orders_1, config: {preallocate: yes, segment.ms: ' 7 '}}",
    )
    assert spec.config == {"num.partitions": "3", "log.cleaner.enable": "true", "a": "0.5"}
    config = {"preallocate": "true", "segment.ms": "7"}
    assert spec.topics == (TopicSpec("Orders_1", 1, 1, config),)


def test_a_topic_is_called_as_its_resource_unless_it_says_otherwise():
    (topic,) = cluster("{}", "{clusterRef: {name: demo}, partitions: 4}").topics
    assert topic == TopicSpec("orders", 4)


def test_what_only_kubernetes_needs_is_passed_over_and_named():
    spec = cluster("{storage: {size: 1Gi}, brokers: {replicas: 1, resources: {}}}")
    assert spec.ignored == (
        "KafkaCluster demo: spec.storage has no effect on this machine",
        "KafkaCluster demo: spec.brokers.resources has no effect on this machine",
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{broker: {}}", "spec.broker: unknown field; known are brokers, config, controllers"),
        ("{brokers: {replicas: 0}}", "spec.brokers.replicas=0: must be a whole number from 1 to"),
        ("{brokers: {replicas: yes}}", "spec.brokers.replicas=True: must be a whole number"),
        ("{brokers: 3}", "spec.brokers=3: must be a mapping of fields"),
        ("{config: {a: [1]}}", "spec.config.a=[1]: must be a text, a number, true or false"),
        ("[]", "spec=[]: must be a mapping of fields"),
    ],
)
def test_a_bad_cluster_field_is_named_with_its_value_and_what_is_allowed(spec, message):
    assert f"KafkaCluster demo: {message}" in refusal(spec)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("{}", "spec.clusterRef: must be demo, the KafkaCluster of this file"),
        ("{clusterRef: other}", "spec.clusterRef=other: must be demo"),
        ("{clusterRef: demo, partitions: 0}", "spec.partitions=0: must be a whole number from 1"),
        ("{clusterRef: demo, topicName: 'a b'}", "spec.topicName=a b: must be up to 249 letters"),
        ("{clusterRef: demo, topicName: ..}", "spec.topicName=..: must be"),
        ("{clusterRef: demo, partition: 3}", "spec.partition: unknown field; known are clusterRef"),
        ("{clusterRef: demo, config: {foo: 1}}", "spec.config: Unknown topic config name: foo"),
        (
            "{clusterRef: demo, config: {retention.ms: x}}",
            "spec.config: Invalid value x for configuration retention.ms: Not a number",
        ),
    ],
)
def test_a_bad_topic_field_is_named_with_its_value_and_what_is_allowed(spec, message):
    assert f"Topic orders: {message}" in refusal("{}", spec)


def test_two_topics_cannot_have_one_name():
    assert "another Topic has this name" in refusal(
        "{}", "{clusterRef: demo}", "{clusterRef: demo}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "there must be one KafkaCluster, and there are 0"),
        (CLUSTER + "---" + CLUSTER, "there must be one KafkaCluster, and there are 2"),
        ("a: [", "line 1, column 5: not YAML"),
        ("- a", "must be a mapping"),
        ("kind: KafkaCluster", "apiVersion: must be pykraft.io/v1alpha1"),
        ("{apiVersion: pykraft.io/v1alpha1, kind: Pod}", "kind=Pod: must be KafkaCluster or Topic"),
        (
            "{apiVersion: pykraft.io/v1alpha1, kind: KafkaCluster, metadata: {name: A_b}}",
            "metadata.name=A_b: must be lower-case letters",
        ),
    ],
)
def test_a_file_that_is_no_cluster_is_refused(text, message):
    with pytest.raises(SpecError) as caught:
        parse_cluster(text.replace("SPEC", "{}"))
    assert message in str(caught.value)


def test_several_nodes_are_refused_for_now():
    with pytest.raises(SpecError, match="several nodes come with the quorum"):
        load_spec(None, brokers=3, controllers=None)
    with pytest.raises(SpecError, match="1 brokers and 3 controllers"):
        load_spec(None, brokers=None, controllers=3)


def test_a_topic_with_more_replicas_than_brokers_is_refused(tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(
        CLUSTER.replace("SPEC", "{}") + TOPIC.replace("SPEC", "{clusterRef: demo, replicas: 3}")
    )
    with pytest.raises(SpecError, match="cannot be more replicas than brokers"):
        load_spec(file, None, None)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SpecError, match=r"nothing\.yaml: No such file"):
        load_spec(tmp_path / "nothing.yaml", None, None)
