"""Refuses settings that a worker supports and a query does not, so that no setting is ignored silently."""

from __future__ import annotations

from collections.abc import Iterator

from kafka_redelivery.pipeline.errors import StreamRefusedError
from kafka_redelivery.topology.config.pipeline_section import PipelineSection
from kafka_redelivery.topology.config.settings import HandlerSection, Settings
from kafka_redelivery.topology.policy.acknowledgement import AcknowledgementMode


def validate_settings(settings: Settings) -> PipelineSection:
    """Return the section ``pipeline`` of a configuration that a query can run.

    Raises:
        StreamRefusedError: a section is missing or a setting is not supported; the message lists all of them.
    """
    section = settings.pipeline
    faults = list(_faults(settings))
    if section is None:
        faults.insert(0, "there is no section pipeline: add 'pipeline: {checkpoint: FOLDER}'")
    if section is None or faults:
        raise StreamRefusedError("redelivery pipeline stream cannot run this configuration:\n" + "\n".join(faults))
    return section


def _faults(settings: Settings) -> Iterator[str]:
    if settings.mode is not AcknowledgementMode.TRANSACTED:
        yield f"mode is {settings.mode}: a query always writes in transactions; remove the setting, or set transacted"
    handler = settings.handler
    if handler is None:
        yield "there is no section handler: add 'handler: {callable: package.module:function}'"
        return
    yield from _handler_faults(handler)
    if handler.vectorized:
        for source in settings.sources:
            for part in ("key", "value"):
                given = getattr(source, part).format
                if given != "raw":
                    yield (
                        f"sources: {source.topic} has a {part} of format {given}, but a vectorised handler receives "
                        "bytes: remove the format and decode in the handler"
                    )


def _handler_faults(handler: HandlerSection) -> Iterator[str]:
    if not handler.non_blocking_redelivery:
        yield (
            "handler.nonBlockingRedelivery is false: a micro-batch cannot wait for a record; remove the setting, "
            "or use redelivery worker"
        )
    if handler.persist_delivery_count_before_delivery:
        yield (
            "handler.persistDeliveryCountBeforeDelivery is true: a query runs handlers in separate processes and "
            "counts a delivery that kills one anyway; remove the setting"
        )
    if handler.vectorized and handler.slots != 1:
        yield (
            f"handler.slots is {handler.slots}: a vectorised handler gets many records in one call, and there is one "
            "call at a time; remove the setting"
        )
