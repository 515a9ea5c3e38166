"""The section of Artemis's address settings, with the names of ``broker.xml``."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kafka_redelivery.topology.artemis.repository import SettingsRepository, Wildcards
from kafka_redelivery.topology.config.section import HandlerDelay, KebabSection
from kafka_redelivery.topology.java.numbers import LONG_MAX, LONG_MIN

Long = Annotated[int, Field(ge=LONG_MIN, le=LONG_MAX)]
"""A signed 64-bit number."""


class WildcardsSection(KebabSection):
    """``wildcard-addresses``: the characters of patterns in matches."""

    delimiter: str = Field(".", min_length=1, max_length=1)
    any_words: str = Field("#", min_length=1, max_length=1)
    single_word: str = Field("*", min_length=1, max_length=1)

    def value(self) -> Wildcards:
        """Return the characters."""
        return Wildcards(**self.model_dump())


class AddressSettingSection(KebabSection):
    """``address-setting``: settings of the addresses that match. Absent settings come from less specific matches."""

    match: str = Field(min_length=1, description="Address or pattern; * matches one word, # any number of words.")
    max_delivery_attempts: int | None = Field(
        None, ge=-(2**31), lt=2**31, description="Deliveries in all; 0 or less: no limit."
    )
    redelivery_delay: Long | None = Field(None, description="Delay in ms before the first redelivery.")
    redelivery_delay_multiplier: float | None = None
    redelivery_collision_avoidance_factor: float | None = Field(None, ge=0, le=1)
    max_redelivery_delay: Long | None = Field(
        None, description="Limit of delays in ms. Default: 10 times redelivery-delay."
    )
    dead_letter_address: str | None = None
    expiry_address: str | None = None
    expiry_delay: Long | None = Field(None, description="Lifetime in ms of records without an expiration; -1: none.")
    min_expiry_delay: Long | None = Field(None, description="Shortest lifetime in ms; -1: no limit.")
    max_expiry_delay: Long | None = Field(None, description="Longest lifetime in ms; -1: no limit.")
    no_expiry: bool | None = Field(None, description="Ignore expirations: no record expires.")
    auto_create_dead_letter_resources: bool | None = Field(None, description="One dead-letter topic per address.")
    dead_letter_queue_prefix: str | None = None
    dead_letter_queue_suffix: str | None = None
    auto_create_expiry_resources: bool | None = Field(None, description="One expiry topic per address.")
    expiry_queue_prefix: str | None = None
    expiry_queue_suffix: str | None = None
    send_to_dla_on_no_route: bool | None = Field(None, description="Has no effect: a record always has a route.")

    def layer(self) -> dict[str, object]:
        """Return the settings that are present, by their names in ``broker.xml``."""
        return self.model_dump(by_alias=True, exclude={"match"}, exclude_none=True)


class ArtemisSection(KebabSection):
    """``artemis``: the configuration of Artemis."""

    wildcard_addresses: WildcardsSection = WildcardsSection()
    literal_match_markers: str | None = Field(
        None, min_length=2, max_length=2, description="Two characters; a match between them is taken literally."
    )
    address_settings: tuple[AddressSettingSection, ...] = ()
    maximum_handler_delay: HandlerDelay = None

    def value(self) -> SettingsRepository:
        """Return all address settings.

        Raises:
            MatchError: a match cannot be used.
        """
        repository = SettingsRepository(self.wildcard_addresses.value(), self.literal_match_markers)
        for setting in self.address_settings:
            repository.add(setting.match, setting.layer())
        return repository
