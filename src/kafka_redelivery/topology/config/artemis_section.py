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

    delimiter: str = Field(".", min_length=1, max_length=1, description="Separates words.")
    any_words: str = Field("#", min_length=1, max_length=1, description="Any number of words, only at the end.")
    single_word: str = Field("*", min_length=1, max_length=1, description="One word.")

    def value(self) -> Wildcards:
        """Return the characters."""
        return Wildcards(**self.model_dump())


class AddressSettingSection(KebabSection):
    """``address-setting``: settings of the addresses that match. Absent settings come from less specific matches."""

    match: str = Field(min_length=1, description="Address or pattern; * matches one word, # any number of words.")
    max_delivery_attempts: int | None = Field(
        None, ge=-(2**31), lt=2**31, description="Deliveries, not redeliveries; 0 or less: no limit. Default: 10."
    )
    redelivery_delay: Long | None = Field(
        None,
        description=(
            "Delay in ms before the first redelivery; 0: at once, whatever the other settings are. Default: 0."
        ),
    )
    redelivery_delay_multiplier: float | None = Field(None, description="Factor of each later delay. Default: 1.0.")
    redelivery_collision_avoidance_factor: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Random part of a delay, also of the first: 0.15 means 15 % more or less. Default: 0.0.",
    )
    max_redelivery_delay: Long | None = Field(
        None,
        description=(
            "Limit of delays in ms, after the random part, which can only shorten a limited delay. "
            "Default: 10 times redelivery-delay."
        ),
    )
    dead_letter_address: str | None = Field(
        None, description="Dead-letter topic of all addresses with this setting. Default: DLQ.{topic}."
    )
    expiry_address: str | None = Field(None, description="Topic for expired records. Default: the dead-letter topic.")
    expiry_delay: Long | None = Field(
        None, description="Lifetime in ms of records without JMSExpiration; -1: for ever. Default: -1."
    )
    min_expiry_delay: Long | None = Field(None, description="Shortest lifetime in ms; -1: no limit. Default: -1.")
    max_expiry_delay: Long | None = Field(None, description="Longest lifetime in ms; -1: no limit. Default: -1.")
    no_expiry: bool | None = Field(
        None, description="true: no record expires, whatever its header says. Default: false."
    )
    auto_create_dead_letter_resources: bool | None = Field(
        None, description="true: one dead-letter topic per address. Default: false."
    )
    dead_letter_queue_prefix: str | None = Field(
        None, description="Put before the address in the name of that topic. Default: `DLQ.`"
    )
    dead_letter_queue_suffix: str | None = Field(None, description="Put after the address. Default: empty.")
    auto_create_expiry_resources: bool | None = Field(
        None, description="true: one topic for expired records per address. Default: false."
    )
    expiry_queue_prefix: str | None = Field(
        None, description="Put before the address in the name of that topic. Default: `EXP.`"
    )
    expiry_queue_suffix: str | None = Field(None, description="Put after the address. Default: empty.")
    send_to_dla_on_no_route: bool | None = Field(None, description="Has no effect: a record always has a route.")

    def layer(self) -> dict[str, object]:
        """Return the settings that are present, by their names in ``broker.xml``."""
        return self.model_dump(by_alias=True, exclude={"match"}, exclude_none=True)


class ArtemisSection(KebabSection):
    """``artemis``: the configuration of Artemis."""

    wildcard_addresses: WildcardsSection = Field(WildcardsSection(), description="The characters of patterns.")
    literal_match_markers: str | None = Field(
        None, min_length=2, max_length=2, description="Two characters; a match between them is taken literally."
    )
    address_settings: tuple[AddressSettingSection, ...] = Field(
        (),
        description=(
            "One item per match. All that match an address are merged field by field; the most specific one wins."
        ),
    )
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
