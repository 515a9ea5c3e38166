"""Settings that mean something to a worker and nothing to a query: refused at start, so that none is ignored."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.errors import StreamRefusedError
from topology.acknowledgement import AcknowledgementMode
from topology.pipeline_settings import PipelineSection
from topology.settings import HandlerSection, Settings


def refuse_what_means_nothing(settings: Settings) -> PipelineSection:
    """The section of the query.

    Raises:
        StreamRefusedError: something is missing or cannot be heeded; names all of it, each with its mend.
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
        yield f"mode is {settings.mode}: a query always writes in transactions; remove it, or write transacted"
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
                        f"sources: {source.topic} has a {part} of format {given}, but a vectorised handler is given "
                        "bytes: remove the format and decode in the handler"
                    )


def _handler_faults(handler: HandlerSection) -> Iterator[str]:
    if not handler.non_blocking_redelivery:
        yield (
            "handler.nonBlockingRedelivery is false: a micro-batch cannot wait for a record; remove it, or use "
            "redelivery worker"
        )
    if handler.persist_delivery_count_before_delivery:
        yield (
            "handler.persistDeliveryCountBeforeDelivery is true: handlers run in processes of their own here, so a "
            "record that kills one is counted anyway; remove it"
        )
    if handler.slots != 1:
        yield (
            f"handler.slots is {handler.slots}: as many records are handled at once as Spark has cores; remove it, and "
            "give Spark's master or its executors as many as you want"
        )
    if "ordering" in handler.model_fields_set and handler.ordering != "partition":
        yield f"handler.ordering is {handler.ordering}: here the order is always that of the partition; remove it"
