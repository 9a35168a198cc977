"""server.properties: what is read, what is refused, and what is only warned about."""

import pytest

from pykraft.configs import BROKER_CONFIGS, ConfigType
from pykraft.settings import (
    OWN_CONFIGS,
    Listener,
    Settings,
    SettingsError,
    Voter,
    advertise,
    format_properties,
    parse_properties,
)
from pykraft.settings.settings import _plain_fields

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "data",
}


def settings(**changes):
    """The combined node with changes; keys are written with underscores, None takes one away."""
    properties = dict(COMBINED)
    for name, value in changes.items():
        key = name.replace("_", ".")
        properties.pop(key, None)
        if value is not None:
            properties[key] = value
    return Settings.from_properties(properties)


def refusal(**changes):
    with pytest.raises(SettingsError) as caught:
        settings(**changes)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# The file.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("  a = 1 ", {"a": "1 "}),
        ("a:1\nb 2\nc\t=\t3", {"a": "1", "b": "2", "c": "3"}),
        ("# a=1\n! b=2\n\nc=3", {"c": "3"}),
        ("a=1,\\\n   2,\\\n   3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a\\ b\\=c=d", {"a b=c": "d"}),
        ("a=x\\ty\\u00e9", {"a": "x\tyé"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a", {"a": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("a==1", {"a": "=1"}),
        ("a=1\\", {"a": "1"}),
        ("a=1\\\n# no comment", {"a": "1# no comment"}),
    ],
)
def test_properties_are_read_as_java_reads_them(text, expected):
    assert parse_properties(text) == expected


def test_written_properties_are_read_back():
    properties = {"a b": " x", "c=d": "\\", "#e": "1\n2", "f:g": "#", "h": ""}
    assert parse_properties(format_properties(properties)) == properties


def test_a_file_is_read_and_overrides_count_for_more(tmp_path):
    path = tmp_path / "server.properties"
    path.write_text(format_properties(COMBINED | {"num.partitions": "3"}))
    assert Settings.load(path).num_partitions == 3
    assert Settings.load(path, {"num.partitions": "5"}).num_partitions == 5


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match=r"nothing\.properties: No such file"):
        Settings.load(tmp_path / "nothing.properties")


# What is read.


def test_a_combined_node_has_kafkas_defaults():
    node = settings()
    assert (node.is_broker, node.is_controller, node.node_id) == (True, True, 1)
    assert node.socket_request_max_bytes == 104_857_600
    assert node.broker_rack is None
    assert node.metadata_log_dir == "data"
    assert node.quorum_bootstrap_servers == (("localhost", 9093),)
    assert node.topic_defaults()["segment.bytes"] == 1_073_741_824
    assert node.warnings == ()


def test_fields_have_the_type_that_their_config_has():
    python_types = {
        ConfigType.BOOLEAN: "bool",
        ConfigType.INT: "int",
        ConfigType.LONG: "int",
        ConfigType.STRING: "str",
    }
    definitions = BROKER_CONFIGS | OWN_CONFIGS
    for name, key in _plain_fields().items():
        config = definitions[key]
        annotation = Settings.__annotations__[name]
        shown = getattr(annotation, "__name__", str(annotation))
        optional = " | None" if config.default is None else ""
        assert shown == python_types[config.type] + optional, key


def test_listeners_are_split_into_the_brokers_and_the_controllers():
    addresses = settings().addresses
    assert addresses.broker_listeners == (Listener("PLAINTEXT", "", 9092),)
    assert addresses.controller_listeners == (Listener("CONTROLLER", "", 9093),)
    assert addresses.advertised_listeners == addresses.broker_listeners
    assert addresses.inter_broker_listener_name == "PLAINTEXT"


def test_what_is_advertised_gets_the_machines_name_and_the_port_that_was_bound():
    node = settings(listeners="PLAINTEXT://:0,CONTROLLER://127.0.0.1:0")
    told = advertise(node.addresses.advertised_listeners, {"PLAINTEXT": 4711}, lambda: "here")
    assert told == (Listener("PLAINTEXT", "here", 4711),)


def test_advertised_listeners_count_for_more_than_listeners():
    node = settings(advertised_listeners="PLAINTEXT://kafka.example:19092")
    assert advertise(node.addresses.advertised_listeners, {}) == (
        Listener("PLAINTEXT", "kafka.example", 19092),
    )
    assert node.addresses.advertised_controller_listeners == (Listener("CONTROLLER", "", 9093),)


def test_an_ipv6_listener_loses_its_brackets():
    node = settings(listeners="PLAINTEXT://[::1]:9092,CONTROLLER://:9093")
    assert node.addresses.broker_listeners == (Listener("PLAINTEXT", "::1", 9092),)


def test_listener_names_may_be_own_ones_if_they_are_mapped():
    node = settings(
        listeners="INTERNAL://:1,EXTERNAL://h:2,CONTROLLER://:3",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="INTERNAL",
    )
    assert [each.name for each in node.addresses.broker_listeners] == ["INTERNAL", "EXTERNAL"]


def test_the_quorum_may_be_static():
    node = settings(
        controller_quorum_bootstrap_servers=None,
        controller_quorum_voters="1@localhost:9093,2@[::1]:9094",
    )
    assert node.quorum_voters == (Voter(1, "localhost", 9093), Voter(2, "::1", 9094))


def test_broker_id_serves_as_node_id_and_both_are_shown():
    node = settings(node_id=None, broker_id="7")
    assert (node.node_id, node.static["node.id"], node.static["broker.id"]) == (7, "7", "7")


def test_log_dir_serves_where_log_dirs_is_not_set_and_doubles_count_once():
    assert settings(log_dirs=None, log_dir="one").log_dirs == ("one",)
    assert settings(log_dirs="a, b,a").log_dirs == ("a", "b")


def test_a_controller_alone_has_no_advertised_listeners():
    node = settings(process_roles="controller", listeners="CONTROLLER://:9093")
    assert (node.is_broker, node.addresses.advertised_listeners) == (False, ())


def test_connection_limits_per_address_are_read():
    node = settings(max_connections_per_ip_overrides="10.0.0.7:20,::1:3")
    assert node.max_connections_per_ip_overrides == {"10.0.0.7": 20, "::1": 3}


def test_passwords_are_not_printed():
    assert "hunter2" not in repr(settings(ssl_keystore_password="hunter2"))


# What is warned about.


def test_one_line_names_all_keys_without_effect_and_another_the_unknown_ones():
    node = settings(num_io_threads="4", background_threads="3", foo="1", a_typo="2")
    assert node.warnings == (
        "these keys of Kafka have no effect here: background.threads, num.io.threads",
        "these keys are not known: a.typo, foo",
    )


# What is refused.


@pytest.mark.parametrize("key", ["process.roles", "node.id", "controller.listener.names"])
def test_a_required_key_is_asked_for(key):
    assert refusal(**{key: None}) == f"{key}: is required and has no default"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"node_id": "abc"}, "node.id=abc: Not a number of type INT"),
        ({"node_id": "-1"}, "node.id=-1: Value must be at least 0"),
        ({"process_roles": "zoo"}, "process.roles=zoo: String must be one of: broker, controller"),
        ({"delete_topic_enable": "maybe"}, "Expected value to be either true or false"),
        ({"log_segment_bytes": "5"}, "log.segment.bytes=5: Value must be at least 1048576"),
        ({"broker_id": "2"}, "node.id=1: must be the same as broker.id=2"),
        ({"log_retention_hours": "0"}, "log.retention.ms: must be unlimited (-1) or,"),
        ({"log_roll_ms": "0"}, "log.roll.ms=0: must be greater than or equal to 1"),
        ({"queued_max_request_bytes": "50"}, "must be at least socket.request.max.bytes"),
        ({"max_connections_per_ip": "0"}, "only with max.connections.per.ip.overrides"),
        ({"max_connections_per_ip_overrides": "a:b"}, "must be HOST:COUNT"),
        (
            {"pykraft_log_format": "xml"},
            "pykraft.log.format=xml: String must be one of: text, json",
        ),
        ({"pykraft_http_port": "70000"}, "Value must be no more than 65535"),
        ({"controller_quorum_bootstrap_servers": None}, "list the controllers as HOST:PORT"),
        ({"controller_quorum_bootstrap_servers": "foo"}, "an entry must be HOST:PORT"),
        ({"controller_quorum_voters": "x"}, "an entry must be ID@HOST:PORT"),
        ({"controller_quorum_voters": "2@localhost:9093"}, "node.id=1: must be among the ids"),
        ({"listeners": "plaintext"}, "must be NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://:99999,CONTROLLER://:9093"}, "must be NAME://HOST:PORT"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2,CONTROLLER://:3"}, "has the same name"),
        ({"listeners": "PLAINTEXT://:1,CONTROLLER://:1"}, "has the same port"),
        ({"listeners": "PLAINTEXT://:9092"}, "a controller needs one of these names in listeners"),
        ({"listeners": "CONTROLLER://:9093"}, "a broker needs a listener that is not in"),
        ({"listeners": "FOO://:9092,CONTROLLER://:9093"}, "add FOO:PLAINTEXT"),
        (
            {"listeners": "PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093"},
            "set advertised.listeners to one they can",
        ),
        ({"listeners": "SSL://:9092,CONTROLLER://:9093"}, "only PLAINTEXT is implemented"),
        ({"listener_security_protocol_map": "PLAINTEXT:FOO"}, "must be NAME:PROTOCOL"),
        ({"inter_broker_listener_name": "FOO"}, "one of the advertised listeners: PLAINTEXT"),
        (
            {"inter_broker_listener_name": "PLAINTEXT", "security_inter_broker_protocol": "SSL"},
            "not both",
        ),
        ({"process_roles": "broker"}, "no listener of this node may be named here"),
        ({"process_roles": "controller"}, "all listeners must be named here"),
    ],
)
def test_a_bad_value_is_refused_with_its_key_and_what_is_allowed(changes, message):
    assert message in refusal(**changes)
