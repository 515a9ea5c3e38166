"""The part of the file that holds Artemis's address settings, under the names of ``broker.xml``."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from topology.artemis.match import Wildcards
from topology.artemis.repository import SettingsRepository
from topology.java_numbers import LONG_MAX, LONG_MIN
from topology.section import Duration, KebabSection

Long = Annotated[int, Field(ge=LONG_MIN, le=LONG_MAX)]
"""A number of 64 bits."""


class WildcardsSection(KebabSection):
    """``wildcard-addresses``: the characters that matches are written with."""

    delimiter: str = Field(".", min_length=1, max_length=1)
    any_words: str = Field("#", min_length=1, max_length=1)
    single_word: str = Field("*", min_length=1, max_length=1)

    def value(self) -> Wildcards:
        """The characters themselves."""
        return Wildcards(delimiter=self.delimiter, any_words=self.any_words, single_word=self.single_word)


class AddressSettingSection(KebabSection):
    """One ``address-setting``; what it leaves out comes from less specific matches. Delays in milliseconds."""

    match: str = Field(min_length=1, description="address or pattern: * one word, # the rest")
    max_delivery_attempts: int | None = Field(None, ge=-(2**31), lt=2**31, description="0 or less = no limit")
    redelivery_delay: Long | None = Field(None, description="ms before the first redelivery; 0 = at once")
    redelivery_delay_multiplier: float | None = None
    redelivery_collision_avoidance_factor: float | None = Field(None, ge=0, le=1)
    max_redelivery_delay: Long | None = Field(None, description="ms; default 10 times redelivery-delay")
    dead_letter_address: str | None = None
    expiry_address: str | None = None
    expiry_delay: Long | None = Field(None, description="ms that others live; -1 = for ever")
    min_expiry_delay: Long | None = Field(None, description="ms; the shortest life; -1 = none")
    max_expiry_delay: Long | None = Field(None, description="ms; the longest life; -1 = none")
    no_expiry: bool | None = Field(None, description="nothing expires, whatever it says")
    auto_create_dead_letter_resources: bool | None = Field(None, description="a dead-letter topic for each address")
    dead_letter_queue_prefix: str | None = None
    dead_letter_queue_suffix: str | None = None
    auto_create_expiry_resources: bool | None = Field(None, description="an expiry topic for each address")
    expiry_queue_prefix: str | None = None
    expiry_queue_suffix: str | None = None
    send_to_dla_on_no_route: bool | None = Field(None, description="nothing here: a record always has a route")

    def layer(self) -> dict[str, object]:
        """What it sets, by the names of ``broker.xml``."""
        return self.model_dump(by_alias=True, exclude={"match"}, exclude_none=True)


class ArtemisSection(KebabSection):
    """``artemis``: Artemis's configuration."""

    wildcard_addresses: WildcardsSection = WildcardsSection()
    literal_match_markers: str | None = Field(
        None, min_length=2, max_length=2, description="two characters; a match between them is taken literally"
    )
    address_settings: tuple[AddressSettingSection, ...] = ()
    maximum_handler_delay: Duration | None = Field(
        None, description="longest delay a handler may ask for; absent = it may not ask"
    )

    def value(self) -> SettingsRepository:
        """All address settings.

        Raises:
            MatchError: a match cannot be used.
        """
        repository = SettingsRepository(self.wildcard_addresses.value(), self.literal_match_markers)
        for setting in self.address_settings:
            repository.add(setting.match, setting.layer())
        return repository

    @property
    def maximum_handler_delay_ms(self) -> int | None:
        """The longest delay a handler may ask for."""
        longest = self.maximum_handler_delay
        return None if longest is None else longest // timedelta(milliseconds=1)
