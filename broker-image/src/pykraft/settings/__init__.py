"""What a node is told at its start."""

from pykraft.settings.errors import SettingsError
from pykraft.settings.listeners import Addresses, Listener, Voter
from pykraft.settings.properties import format_properties, parse_properties
from pykraft.settings.settings import (
    OWN_CONFIGS,
    Settings,
    advertise,
    implemented_keys,
)

__all__ = [
    "OWN_CONFIGS",
    "Addresses",
    "Listener",
    "Settings",
    "SettingsError",
    "Voter",
    "advertise",
    "format_properties",
    "implemented_keys",
    "parse_properties",
]
