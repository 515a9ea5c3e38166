"""The names and types in ``broker.xml``, from the XML schema of Artemis 2.40."""

from __future__ import annotations

from collections.abc import Callable

from kafka_redelivery.topology.migration.schema import words

ADDRESS_SETTING = dict.fromkeys(
    words(
        """
            dead-letter-address dead-letter-queue-prefix dead-letter-queue-suffix expiry-address
            expiry-queue-prefix expiry-queue-suffix address-full-policy page-full-policy default-last-value-key
            default-group-first-key slow-consumer-threshold-measurement-unit slow-consumer-policy
            config-delete-queues config-delete-addresses config-delete-diverts default-queue-routing-type
            default-address-routing-type
            """
    ),
    "string",
)
ADDRESS_SETTING |= dict.fromkeys(
    words(
        """
            auto-create-dead-letter-resources auto-create-expiry-resources no-expiry last-value-queue
            default-last-value-queue default-non-destructive default-exclusive-queue default-group-rebalance
            default-group-rebalance-pause-dispatch send-to-dla-on-no-route auto-create-jms-queues
            auto-delete-jms-queues auto-create-jms-topics auto-delete-jms-topics auto-create-queues
            auto-delete-queues auto-delete-created-queues auto-delete-queues-skip-usage-check
            auto-create-addresses auto-delete-addresses auto-delete-addresses-skip-usage-check
            default-purge-on-no-consumers enable-metrics enable-ingress-timestamp
            """
    ),
    "boolean",
)
ADDRESS_SETTING |= dict.fromkeys(
    words(
        """
            max-delivery-attempts page-max-cache-size max-read-page-messages prefetch-page-messages
            message-counter-history-day-limit default-group-buckets default-consumers-before-dispatch
            management-browse-page-size management-message-attribute-size-limit default-max-consumers
            default-consumer-window-size id-cache-size initial-queue-buffer-size max-size-messages
            """
    ),
    "int",
)
ADDRESS_SETTING |= dict.fromkeys(
    words(
        """
            expiry-delay min-expiry-delay max-expiry-delay redelivery-delay max-redelivery-delay
            page-limit-messages default-delay-before-dispatch
            redistribution-delay slow-consumer-threshold slow-consumer-check-period auto-delete-queues-delay
            auto-delete-queues-message-count auto-delete-addresses-delay default-ring-size
            retroactive-message-count
            """
    ),
    "long",
)
ADDRESS_SETTING |= dict.fromkeys(
    words(
        """
            max-size-bytes page-limit-bytes page-size-bytes max-read-page-bytes prefetch-page-bytes
            max-size-bytes-reject-threshold
            """
    ),
    "bytes",
)
ADDRESS_SETTING |= dict.fromkeys(("redelivery-delay-multiplier", "redelivery-collision-avoidance-factor"), "double")

NO_DEFAULT = frozenset(("send-to-dla-on-no-route", "enabled", "routing-enabled"))
"""Booleans that must not be empty."""

CHOICES = {
    "address-full-policy": frozenset(("DROP", "FAIL", "PAGE", "BLOCK")),
    "page-full-policy": frozenset(("DROP", "FAIL")),
    "slow-consumer-policy": frozenset(("KILL", "NOTIFY")),
    "config-delete-queues": frozenset(("OFF", "FORCE")),
    "config-delete-addresses": frozenset(("OFF", "FORCE")),
    "config-delete-diverts": frozenset(("OFF", "FORCE")),
    "slow-consumer-threshold-measurement-unit": frozenset(
        ("MESSAGES_PER_SECOND", "MESSAGES_PER_MINUTE", "MESSAGES_PER_HOUR", "MESSAGES_PER_DAY")
    ),
    "journal-type": frozenset(("ASYNCIO", "NIO", "MAPPED")),
    "critical-analyzer-policy": frozenset(("LOG", "HALT", "SHUTDOWN")),
    "default-queue-routing-type": frozenset(("ANYCAST", "MULTICAST")),
    "default-address-routing-type": frozenset(("ANYCAST", "MULTICAST")),
}
"""Elements whose text is one of a few values."""

_INT_MAX = 2**31 - 1

LIMITS: dict[str, Callable[[float], bool]] = {
    "auto-delete-addresses-delay": lambda found: found >= 0,
    "auto-delete-queues-delay": lambda found: found >= 0,
    "auto-delete-queues-message-count": lambda found: found >= -1,
    "id-cache-size": lambda found: found >= 0,
    "initial-queue-buffer-size": lambda found: found > 0 and int(found).bit_count() == 1,
    "max-read-page-bytes": lambda found: found == -1 or 0 < found <= _INT_MAX,
    "max-read-page-messages": lambda found: found == -1 or 0 < found <= _INT_MAX,
    "page-limit-bytes": lambda found: found == -1 or found > 0,
    "page-limit-messages": lambda found: found == -1 or found > 0,
    "page-size-bytes": lambda found: 0 < found <= _INT_MAX,
    "prefetch-page-bytes": lambda found: found == -1 or 0 < found <= _INT_MAX,
    "prefetch-page-messages": lambda found: found == -1 or 0 < found <= _INT_MAX,
    "redelivery-collision-avoidance-factor": lambda found: 0 <= found <= 1,
    "retroactive-message-count": lambda found: found >= 0,
    "slow-consumer-check-period": lambda found: found > 0,
    "slow-consumer-threshold": lambda found: found == -1 or found > 0,
}
"""Numbers for which the broker accepts only some values.

Source: ``FileConfigurationParser.parseAddressSettings``.
"""

CORE: dict[str, str] = {}
CORE |= dict.fromkeys(
    words(
        """
            amqp-use-core-subscription-naming resolve-protocols journal-datasync large-message-sync
            persistence-enabled graceful-shutdown-enabled security-enabled wild-card-routing-enabled
            mask-password jmx-management-enabled jmx-use-broker-name message-counter-enabled
            async-connection-execution-enabled persist-id-cache
            persist-delivery-count-before-delivery populate-validated-user
            reject-empty-validated-user create-bindings-dir read-whole-page create-journal-dir
            journal-sync-transactional journal-sync-non-transactional log-journal-write-rate
            critical-analyzer mirror-ack-manager-warn-unacked mirror-page-transaction
            suppress-session-notifications management-message-rbac
            """
    ),
    "boolean",
)
CORE |= dict.fromkeys(
    words(
        """
            scheduled-thread-pool-max-size thread-pool-max-size message-counter-max-day-history
            message-expiry-thread-priority id-cache-size page-max-concurrent-io journal-min-files
            journal-pool-files journal-compact-percentage journal-compact-min-files journal-max-io
            journal-file-open-timeout max-disk-usage memory-warning-threshold page-sync-timeout
            mirror-ack-manager-queue-attempts mirror-ack-manager-page-attempts
            mirror-ack-manager-retry-delay
            """
    ),
    "int",
)
CORE |= dict.fromkeys(
    words(
        """
            graceful-shutdown-timeout security-invalidation-interval authentication-cache-size
            authorization-cache-size journal-lock-acquisition-timeout message-counter-sample-period
            connection-ttl-override connection-ttl-check-interval configuration-file-refresh-period
            transaction-timeout transaction-timeout-scan-period message-expiry-scan-period
            address-queue-scan-period max-redelivery-records mqtt-session-scan-interval
            mqtt-session-state-persistence-timeout journal-buffer-timeout journal-device-block-size
            server-dump-interval global-max-messages disk-scan-period memory-measure-interval
            critical-analyzer-timeout critical-analyzer-check-period network-check-period
            network-check-timeout
            """
    ),
    "long",
)
"""The types of the simple children of ``<core>``; those that are not listed are text."""

WILDCARDS = {
    "enabled": "boolean",
    "routing-enabled": "boolean",
    "delimiter": "string",
    "any-words": "string",
    "single-word": "string",
}

CORE_NAMES = words(
    """
            name system-property-prefix internal-naming-prefix amqp-use-core-subscription-naming
            resolve-protocols journal-datasync large-message-sync persistence-enabled
            scheduled-thread-pool-max-size thread-pool-max-size graceful-shutdown-enabled
            graceful-shutdown-timeout security-enabled security-invalidation-interval authentication-cache-size
            authorization-cache-size journal-lock-acquisition-timeout wild-card-routing-enabled
            management-address management-notification-address cluster-user cluster-password password-codec
            mask-password log-delegate-factory-class-name jmx-management-enabled jmx-domain jmx-use-broker-name
            message-counter-enabled message-counter-sample-period message-counter-max-day-history
            connection-ttl-override connection-ttl-check-interval configuration-file-refresh-period
            temporary-queue-namespace async-connection-execution-enabled transaction-timeout
            transaction-timeout-scan-period message-expiry-scan-period message-expiry-thread-priority
            address-queue-scan-period id-cache-size persist-id-cache remoting-incoming-interceptors
            remoting-outgoing-interceptors persist-delivery-count-before-delivery max-redelivery-records
            populate-validated-user reject-empty-validated-user mqtt-session-scan-interval
            mqtt-session-state-persistence-timeout connectors acceptors broadcast-groups discovery-groups
            diverts queues bridges federations ha-policy cluster-connections broker-connections
            connection-routers grouping-handler paging-directory bindings-directory create-bindings-dir
            page-max-concurrent-io read-whole-page journal-directory journal-retention-directory
            node-manager-lock-directory create-journal-dir journal-type journal-buffer-timeout
            journal-device-block-size journal-buffer-size journal-sync-transactional
            journal-sync-non-transactional log-journal-write-rate journal-file-size journal-min-files
            journal-pool-files journal-compact-percentage journal-compact-min-files journal-max-io
            journal-file-open-timeout server-dump-interval global-max-messages
            global-max-size-percent-of-jvm-max-memory global-max-size max-disk-usage min-disk-free
            disk-scan-period memory-warning-threshold memory-measure-interval large-messages-directory store
            critical-analyzer critical-analyzer-timeout critical-analyzer-check-period critical-analyzer-policy
            page-sync-timeout mirror-ack-manager-queue-attempts mirror-ack-manager-page-attempts
            mirror-ack-manager-retry-delay mirror-ack-manager-warn-unacked mirror-page-transaction
            suppress-session-notifications literal-match-markers view-permission-method-match-pattern
            management-message-rbac management-rbac-prefix security-settings broker-plugins metrics-plugin
            metrics address-settings resource-limit-settings connector-services addresses network-check-list
            network-check-URL-list network-check-period network-check-timeout network-check-NIC
            network-check-ping-command network-check-ping6-command wildcard-addresses
            """
)
"""All children that ``<core>`` may have, each at most once."""
