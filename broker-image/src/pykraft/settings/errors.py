"""Why a node does not start."""


class SettingsError(Exception):
    """One line: the key, its value, and what is allowed or to be done."""

    def __init__(self, key: str, value: str | None, allowed: str) -> None:
        super().__init__(f"{key}: {allowed}" if value is None else f"{key}={value}: {allowed}")
        self.key = key
        self.value = value
        self.allowed = allowed
