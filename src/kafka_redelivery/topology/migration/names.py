"""Names that configuration files of ActiveMQ Classic and Artemis may have, by version.

Written by ``deploy/broker_names.py`` from the XML schemas of the brokers, of one patch of each minor version. Not to
be edited.
"""

VERSIONS = {
    "activemq": """
        5.0 5.1 5.2 5.3 5.4 5.5 5.6 5.7 5.8 5.9 5.10 5.11 5.12 5.13 5.14 5.15 5.16 5.17 5.18 5.19 6.0 6.1 6.2 6.3
        """,
    "artemis": """
        2.0 2.1 2.2 2.3 2.4 2.5 2.6 2.7 2.8 2.9 2.10 2.11 2.12 2.13 2.14 2.15 2.16 2.17 2.18 2.19 2.20 2.21 2.22 2.23
        2.24 2.25 2.26 2.27 2.28 2.29 2.30 2.31 2.32 2.33 2.34 2.35 2.36 2.37 2.38 2.39 2.40 2.41 2.42 2.43 2.44 2.50
        2.51 2.52 2.53 2.54 2.55 2.56
        """,
}
"""The minor versions whose schemas were read, in their order."""

NAMES: dict[str, dict[str, dict[str, str]]] = {
    "activemq": {
        "broker": {
            "": """
                adminView advisorySupport brokerName brokerObjectName consumerSystemUsage dataDirectory
                dataDirectoryFile deleteAllMessagesOnStartup destinationFactory destinationPolicy enableStatistics id
                keepDurableSubsActive managementContext messageAuthorizationPolicy persistenceAdapter
                persistenceFactory persistenceTaskRunnerFactory persistenceThreadPriority persistent
                populateJMSXUserID producerSystemUsage shutdownOnMasterFailure start systemUsage taskRunnerFactory
                tempDataStore tmpDataDirectory useJmx useLocalHostBrokerName useLoggingForShutdownErrors
                useMirroredQueues useShutdownHook useVirtualTopics vmConnectorURI
                """,
            "-5.11": "supportFailOver",
            "-5.7": "masterConnectorURI",
            "5.0": "clustered",
            "5.1-": """
                cacheTempDestinations consumerSystemUsagePortion dedicatedTaskRunner monitorConnectionSplits
                producerSystemUsagePortion regionBroker splitSystemUsageForProducersConsumers taskRunnerPriority
                timeBeforePurgeTempDestinations
                """,
            "5.1-5.3": "applicationContext",
            "5.12-": "rejectDurableConsumers schedulePeriodForDiskUsageCheck",
            "5.13-": """
                adjustUsageLimits diskUsageCheckRegrowThreshold startException useVirtualDestSubs
                useVirtualDestSubsOnCreation
                """,
            "5.14-": "rollbackOnlyOnAsyncException",
            "5.15-": "anonymousProducerAdvisorySupport",
            "5.16-": "enableMessageExpirationOnActiveDurableSubs maxSchedulerRepeatAllowed",
            "5.17-5.19 6.1-": "maxUncommittedCount",
            "5.19 6.2-": "maxInflatedDataSize",
            "5.2-": """
                shutdownOnSlaveFailure sslContext systemExitOnShutdown systemExitOnShutdownExitCode
                useTempMirroredQueues waitForSlave
                """,
            "5.2-5.6": "destroyApplicationContextOnShutdown",
            "5.3-": "ioExceptionHandler passiveSlave waitForSlaveTimeout",
            "5.3-5.6": "destroyApplicationContextOnStop",
            "5.4-": """
                brokerContext brokerId schedulePeriodForDestinationPurge schedulerDirectory schedulerDirectoryFile
                schedulerSupport
                """,
            "5.5-": "networkConnectorStartAsync useAuthenticatedPrincipalForJMSXUserID",
            "5.6-": """
                allowTempAutoCreationOnSend maxPurgedDestinationsPerSweep offlineDurableSubscriberTaskSchedule
                offlineDurableSubscriberTimeout populateUserNameInMBeans
                """,
            "5.7-": "mbeanInvocationTimeout startAsync",
            "5.8-": "jobSchedulerStore",
            "5.9-": "restartAllowed storeOpenWireVersion",
            "6.2-": "virtualThreadTaskRunner",
        },
        "broker children": {
            "": """
                adminView consumerSystemUsage destinationFactory destinationInterceptors destinationPolicy
                destinations jmsBridgeConnectors managementContext messageAuthorizationPolicy networkConnectorURIs
                networkConnectors persistenceAdapter persistenceFactory persistenceTaskRunnerFactory plugins
                producerSystemUsage proxyConnectors services systemUsage taskRunnerFactory tempDataStore
                transportConnectorURIs transportConnectors
                """,
            "5.1-": "regionBroker",
            "5.1-5.3": "applicationContext",
            "5.13-": "startException",
            "5.17-": """
                brokerObjectName dataDirectoryFile schedulerDirectoryFile tmpDataDirectory vmConnectorURI
                """,
            "5.2-": "sslContext",
            "5.3-": "ioExceptionHandler",
            "5.4-": "brokerContext shutdownHooks",
            "5.8-": "jobSchedulerStore",
        },
        "connectionFactory": {
            "": """
                alwaysSessionAsync alwaysSyncSend beanName blobTransferPolicy brokerURL clientID clientIDPrefix
                clientIdGenerator closeTimeout copyMessageOnSend disableTimeStampsByDefault dispatchAsync
                exclusiveConsumer id nestedMapAndListEnabled objectMessageSerializationDefered optimizeAcknowledge
                optimizedMessageDispatch password prefetchPolicy producerWindowSize properties redeliveryPolicy
                statsEnabled transformer transportListener useAsyncSend useBeanNameAsClientIdPrefix useCompression
                useRetroactiveConsumer userName warnAboutUnstartedConnectionTimeout watchTopicAdvisories
                """,
            "5.1-": "sendTimeout",
            "5.11-": "consumerExpiryCheckEnabled",
            "5.12-": "trustAllPackages",
            "5.14-": "connectResponseTimeout",
            "5.19 6.2-": "maxInflatedDataSizeRatio",
            "5.3-": """
                auditDepth auditMaximumProducerNumber clientInternalExceptionListener
                consumerFailoverRedeliveryWaitPeriod exceptionListener sendAcksAsync useDedicatedTaskRunner
                """,
            "5.4-": "checkForDuplicates messagePrioritySupported",
            "5.6-": """
                connectionIDPrefix connectionIdGenerator nonBlockingRedelivery optimizeAcknowledgeTimeOut
                transactedIndividualAck
                """,
            "5.7-": """
                maxThreadPoolSize optimizedAckScheduledAckInterval redeliveryPolicyMap rejectedTaskHandler
                sessionTaskRunner
                """,
            "5.9-": "rmIdFromConnectionId",
            "6.2-": "useVirtualThreadTaskRunner",
            "6.3-": "requestTimeout strictCompliance",
        },
        "connectionFactory children": {
            "": """
                blobTransferPolicy clientIdGenerator prefetchPolicy properties redeliveryPolicy transformer
                transportListener
                """,
            "5.12-": "trustedPackages",
            "5.3-": "clientInternalExceptionListener exceptionListener",
            "5.6-": "connectionIdGenerator",
            "5.7-": "redeliveryPolicyMap rejectedTaskHandler sessionTaskRunner",
        },
        "discarding": {
            "5.12-": "expiration",
            "5.15-": "maxAuditDepth maxProducersToAudit",
            "5.9-": "deadLetterQueue enableAudit id processExpired processNonPersistent",
        },
        "discarding children": {
            "5.9-": "deadLetterQueue",
        },
        "discardingDLQBrokerPlugin": {
            "5.3-": "dropAll dropOnly dropTemporaryQueues dropTemporaryTopics id reportInterval",
        },
        "elements": {
            "": """
                authenticationUser authorizationEntry authorizationMap authorizationPlugin blobJDBCAdapter broker
                bytesJDBCAdapter compositeDemandForwardingBridge compositeQueue compositeTopic connectionDotFilePlugin
                connectionFactory constantPendingMessageLimitStrategy db2JDBCAdapter defaultJDBCAdapter
                defaultUsageCapacity demandForwardingBridge destinationDotFilePlugin destinationEntry fileCursor
                fileDurableSubscriberCursor fileQueueCursor filteredDestination fixedCountSubscriptionRecoveryPolicy
                fixedSizedSubscriptionRecoveryPolicy forwardingBridge imageBasedJDBCAdaptor inboundQueueBridge
                inboundTopicBridge individualDeadLetterStrategy informixJDBCAdapter jaasAuthenticationPlugin
                jaasCertificateAuthenticationPlugin jdbcPersistenceAdapter jmsQueueConnector jmsTopicConnector
                lDAPAuthorizationMap lastImageSubscriptionRecoveryPolicy ldapNetworkConnector loggingBrokerPlugin
                managementContext memoryPersistenceAdapter memoryUsage messageGroupHashBucketFactory mirroredQueue
                multicastNetworkConnector multicastTraceBrokerPlugin networkConnector noSubscriptionRecoveryPolicy
                oldestMessageEvictionStrategy oldestMessageWithLowestPriorityEvictionStrategy oracleJDBCAdapter
                outboundQueueBridge outboundTopicBridge policyEntry policyMap prefetchPolicy
                prefetchRatePendingMessageLimitStrategy proxyConnector queryBasedSubscriptionRecoveryPolicy queue
                redeliveryPolicy roundRobinDispatchPolicy sharedDeadLetterStrategy simpleAuthenticationPlugin
                simpleAuthorizationMap simpleDispatchPolicy simpleJmsMessageConvertor simpleMessageGroupMapFactory
                statements storeCursor storeDurableSubscriberCursor storeUsage strictOrderDispatchPolicy systemUsage
                tempDestinationAuthorizationEntry tempUsage timeStampingBrokerPlugin timedSubscriptionRecoveryPolicy
                topic transportConnector udpTraceBrokerPlugin usageCapacity virtualDestinationInterceptor virtualTopic
                vmCursor vmDurableCursor vmQueueCursor xaConnectionFactory
                """,
            "-5.19": "journalPersistenceAdapter journaledJDBC",
            "-5.7": "masterConnector",
            "-5.8": """
                amqPersistenceAdapter amqPersistenceAdapterFactory commandAgent kahaPersistenceAdapter
                """,
            "-6.1": "axionJDBCAdapter streamJDBCAdapter",
            "5.1-": "queueDispatchSelector simpleDispatchSelector",
            "5.10-": "retainedMessageSubscriptionRecoveryPolicy",
            "5.11-": "destinationsPlugin leaseLockerIOExceptionHandler",
            "5.11-5.16": "camelEndpointLoader camelRoutesBrokerPlugin",
            "5.15-": "clientIdFilterDispatchPolicy sqlServerJDBCAdapter",
            "5.18-5.19 6.2-": "chainMessageInterceptorStrategy headerMessageInterceptorStrategy",
            "5.2-": "sslContext",
            "5.3-": """
                brokerService database-locker discardingDLQBrokerPlugin forcePersistencyModeBroker
                forcePersistencyModeBrokerPlugin hsqldb-jdbc-adapter kahaDB maxdb-jdbc-adapter mysql-jdbc-adapter
                postgresql-jdbc-adapter statisticsBrokerPlugin sybase-jdbc-adapter traceBrokerPathPlugin
                transact-database-locker transact-jdbc-adapter
                """,
            "5.3-5.19": "journalPersistenceAdapterFactory",
            "5.4-": "abortSlowConsumerStrategy jaasDualAuthenticationPlugin priorityNetworkDispatchPolicy",
            "5.4-5.7": "pListStore",
            "5.5-": "defaultIOExceptionHandler",
            "5.6-": """
                cachedLDAPAuthorizationMap conditionalNetworkBridgeFilterFactory defaultNetworkBridgeFilterFactory
                destinationPathSeparatorPlugin filteredKahaDB mKahaDB oracleBlobJDBCAdapter reconnectionPolicy
                taskRunnerFactory tempQueue tempTopic uniquePropertyMessageEvictionStrategy
                virtualSelectorCacheBrokerPlugin
                """,
            "5.6-5.16": "levelDB",
            "5.7-": """
                jDBCIOExceptionHandler lease-database-locker redeliveryPlugin redeliveryPolicyMap shared-file-locker
                """,
            "5.8-": """
                jobSchedulerUsage pListStoreImpl pooledConnectionFactory priorityDispatchPolicy publishedAddressPolicy
                """,
            "5.9-": """
                abortSlowAckConsumerStrategy cachedMessageGroupMapFactory discarding runtimeConfigurationPlugin
                """,
            "5.9-5.16": "replicatedLevelDB",
            "5.9-5.19": "partitionBrokerPlugin",
            "6.3-": "h2-jdbc-adapter",
        },
        "individualDeadLetterStrategy": {
            "": """
                id processExpired processNonPersistent queuePrefix topicPrefix useQueueForQueueMessages
                useQueueForTopicMessages
                """,
            "5.12-": "expiration",
            "5.15-": "maxAuditDepth maxProducersToAudit",
            "5.5-": "destinationPerDurableSubscriber",
            "5.6-": "enableAudit",
            "5.7-": "queueSuffix topicSuffix",
        },
        "plugins": {
            "": """
                authorizationPlugin connectionDotFilePlugin destinationDotFilePlugin jaasAuthenticationPlugin
                jaasCertificateAuthenticationPlugin loggingBrokerPlugin multicastTraceBrokerPlugin
                simpleAuthenticationPlugin timeStampingBrokerPlugin udpTraceBrokerPlugin
                """,
            "5.11-": "destinationsPlugin",
            "5.11-5.16": "camelRoutesBrokerPlugin",
            "5.3-": """
                discardingDLQBrokerPlugin forcePersistencyModeBrokerPlugin statisticsBrokerPlugin
                traceBrokerPathPlugin
                """,
            "5.4-": "jaasDualAuthenticationPlugin",
            "5.6-": "destinationPathSeparatorPlugin virtualSelectorCacheBrokerPlugin",
            "5.7-": "redeliveryPlugin",
            "5.9-": "runtimeConfigurationPlugin",
            "5.9-5.19": "partitionBrokerPlugin",
        },
        "policyEntry": {
            "": """
                deadLetterStrategy destination dispatchPolicy enableAudit id maxAuditDepth maxProducersToAudit
                maxQueueAuditDepth memoryLimit messageEvictionStrategy messageGroupMapFactory optimizedDispatch
                pendingDurableSubscriberPolicy pendingMessageLimitStrategy pendingQueuePolicy pendingSubscriberPolicy
                producerFlowControl queue sendAdvisoryIfNoConsumers subscriptionRecoveryPolicy topic
                """,
            "5.1-": """
                lazyDispatch maxPageSize minimumMessageSize strictOrderDispatch useCache useConsumerPriority
                """,
            "5.10-": "persistJMSRedelivered",
            "5.11-": "inactiveTimeoutBeforeGC maxDestinations",
            "5.12-": "includeBodyForAdvisory",
            "5.15-": "useTopicSubscriptionInflightStats",
            "5.16-": "sendDuplicateFromStoreToDLQ sendFailIfNoSpace sendFailIfNoSpaceAfterTimeout",
            "5.18-": "advisoryForDispatched",
            "5.18-5.19 6.2-": "advancedNetworkStatisticsEnabled messageInterceptorStrategy",
            "5.19 6.2-": "advancedMessageStatisticsEnabled allowTempDestinationStealing",
            "5.3-": """
                advisoryForConsumed advisoryForDelivery advisoryForDiscardingMessages advisoryForSlowConsumers
                advisoryWhenFull blockedProducerWarningInterval consumersBeforeDispatchStarts
                cursorMemoryHighWaterMark durableTopicPrefetch expireMessagesPeriod maxBrowsePageSize
                maxExpirePageSize queueBrowserPrefetch queuePrefetch timeBeforeDispatchStarts topicPrefetch
                """,
            "5.3-5.6": "advisdoryForFastProducers",
            "5.4-": """
                allConsumersExclusiveByDefault gcInactiveDestinations inactiveTimoutBeforeGC prioritizedMessages
                reduceMemoryFootprint slowConsumerStrategy storeUsageHighWaterMark tempQueue tempTopic
                usePrefetchExtension
                """,
            "5.6-": """
                alwaysRetroactive doOptimzeMessageStorage gcWithNetworkConsumers networkBridgeFilterFactory
                optimizeMessageStoreInFlightLimit
                """,
            "5.7-": "advisoryForFastProducers",
            "5.9-": "messageGroupMapFactoryType",
        },
        "policyEntry children": {
            "": """
                deadLetterStrategy destination dispatchPolicy messageEvictionStrategy messageGroupMapFactory
                pendingDurableSubscriberPolicy pendingMessageLimitStrategy pendingQueuePolicy pendingSubscriberPolicy
                subscriptionRecoveryPolicy
                """,
            "5.18-5.19 6.2-": "messageInterceptorStrategy",
            "5.4-": "slowConsumerStrategy",
            "5.6-": "networkBridgeFilterFactory",
        },
        "policyMap": {
            "": "defaultEntry id",
        },
        "policyMap children": {
            "": "defaultEntry entries policyEntries",
        },
        "prefetchPolicy": {
            "": """
                all durableTopicPrefetch id maximumPendingMessageLimit optimizeDurableTopicPrefetch
                queueBrowserPrefetch queuePrefetch topicPrefetch
                """,
            "-5.11": "inputStreamPrefetch",
        },
        "redeliveryPlugin": {
            "5.7-": """
                adminConnectionContext fallbackToDeadLetter id next redeliveryPolicyMap sendToDlqIfMaxRetriesExceeded
                """,
        },
        "redeliveryPlugin children": {
            "5.7-": "adminConnectionContext next redeliveryPolicyMap",
        },
        "redeliveryPolicy": {
            "": """
                backOffMultiplier collisionAvoidancePercent id initialRedeliveryDelay maximumRedeliveries
                useCollisionAvoidance useExponentialBackOff
                """,
            "5.15-": "preDispatchCheck",
            "5.4-": "redeliveryDelay",
            "5.5-": "maximumRedeliveryDelay",
            "5.7-": "destination queue tempQueue tempTopic topic",
        },
        "redeliveryPolicy children": {
            "5.7-": "destination",
        },
        "redeliveryPolicyMap": {
            "5.7-": "defaultEntry id",
        },
        "redeliveryPolicyMap children": {
            "5.7-": "defaultEntry entries redeliveryPolicyEntries",
        },
        "sharedDeadLetterStrategy": {
            "": "deadLetterQueue id processExpired processNonPersistent",
            "5.12-": "expiration",
            "5.15-": "maxAuditDepth maxProducersToAudit",
            "5.6-": "enableAudit",
        },
        "sharedDeadLetterStrategy children": {
            "": "deadLetterQueue",
        },
    },
    "artemis": {
        "address-setting": {
            "": """
                address-full-policy auto-create-addresses auto-create-jms-queues auto-create-jms-topics
                auto-create-queues auto-delete-addresses auto-delete-jms-queues auto-delete-jms-topics
                auto-delete-queues dead-letter-address default-address-routing-type default-max-consumers
                default-purge-on-no-consumers default-queue-routing-type expiry-address expiry-delay last-value-queue
                management-browse-page-size max-delivery-attempts max-redelivery-delay max-size-bytes
                max-size-bytes-reject-threshold message-counter-history-day-limit page-max-cache-size page-size-bytes
                redelivery-delay redelivery-delay-multiplier redistribution-delay send-to-dla-on-no-route
                slow-consumer-check-period slow-consumer-policy slow-consumer-threshold
                """,
            "2.10-": "default-ring-size redelivery-collision-avoidance-factor",
            "2.11-": "retroactive-message-count",
            "2.12-": """
                auto-create-dead-letter-resources auto-create-expiry-resources dead-letter-queue-prefix
                dead-letter-queue-suffix expiry-queue-prefix expiry-queue-suffix
                """,
            "2.13-": "enable-metrics max-expiry-delay min-expiry-delay",
            "2.15-": "default-group-rebalance-pause-dispatch",
            "2.18-": """
                config-delete-diverts enable-ingress-timestamp management-message-attribute-size-limit
                slow-consumer-threshold-measurement-unit
                """,
            "2.2-": "config-delete-addresses config-delete-queues",
            "2.21-": "max-size-messages",
            "2.24-": "max-read-page-bytes max-read-page-messages",
            "2.28-": "page-full-policy page-limit-bytes page-limit-messages",
            "2.29-": "auto-delete-addresses-skip-usage-check auto-delete-queues-skip-usage-check",
            "2.31-": "id-cache-size prefetch-page-bytes prefetch-page-messages",
            "2.37-": "initial-queue-buffer-size",
            "2.40-": "no-expiry",
            "2.5-": "default-exclusive-queue default-last-value-queue",
            "2.50-": "disk-full-policy",
            "2.7-": """
                auto-delete-addresses-delay auto-delete-queues-delay auto-delete-queues-message-count
                default-consumer-window-size default-consumers-before-dispatch default-delay-before-dispatch
                default-group-buckets default-group-rebalance default-last-value-key default-non-destructive
                """,
            "2.8-": "auto-delete-created-queues default-group-first-key",
        },
        "core": {
            "": """
                acceptors address-settings addresses async-connection-execution-enabled bindings-directory bridges
                broadcast-groups cluster-connections cluster-password cluster-user configuration-file-refresh-period
                connection-ttl-check-interval connection-ttl-override connector-services connectors
                create-bindings-dir create-journal-dir discovery-groups disk-scan-period diverts global-max-size
                graceful-shutdown-enabled graceful-shutdown-timeout grouping-handler ha-policy id-cache-size
                internal-naming-prefix jmx-domain jmx-management-enabled jmx-use-broker-name journal-buffer-size
                journal-buffer-timeout journal-compact-min-files journal-compact-percentage journal-datasync
                journal-directory journal-file-size journal-lock-acquisition-timeout journal-max-io journal-min-files
                journal-pool-files journal-sync-non-transactional journal-sync-transactional journal-type
                large-messages-directory log-delegate-factory-class-name log-journal-write-rate management-address
                management-notification-address mask-password max-disk-usage memory-measure-interval
                memory-warning-threshold message-counter-enabled message-counter-max-day-history
                message-counter-sample-period message-expiry-scan-period message-expiry-thread-priority name
                network-check-NIC network-check-URL-list network-check-list network-check-period
                network-check-ping-command network-check-ping6-command network-check-timeout page-max-concurrent-io
                paging-directory password-codec persist-delivery-count-before-delivery persist-id-cache
                persistence-enabled populate-validated-user queues remoting-incoming-interceptors
                remoting-outgoing-interceptors resolve-protocols resource-limit-settings
                scheduled-thread-pool-max-size security-enabled security-invalidation-interval security-settings
                server-dump-interval store system-property-prefix thread-pool-max-size transaction-timeout
                transaction-timeout-scan-period wild-card-routing-enabled wildcard-addresses
                """,
            "2.1-": "broker-plugins",
            "2.10-": "journal-device-block-size read-whole-page",
            "2.11-": "page-sync-timeout",
            "2.14-": "metrics",
            "2.16-": """
                authentication-cache-size authorization-cache-size broker-connections temporary-queue-namespace
                """,
            "2.18-": "journal-retention-directory",
            "2.18-2.20": "broker-balancers",
            "2.2-": "amqp-use-core-subscription-naming journal-file-open-timeout",
            "2.21-": """
                connection-routers global-max-messages mqtt-session-scan-interval suppress-session-notifications
                """,
            "2.29-": "max-redelivery-records",
            "2.3-": """
                critical-analyzer critical-analyzer-check-period critical-analyzer-policy critical-analyzer-timeout
                """,
            "2.31-": "min-disk-free",
            "2.32-": "large-message-sync literal-match-markers mqtt-session-state-persistence-timeout",
            "2.33-": "management-message-rbac management-rbac-prefix view-permission-method-match-pattern",
            "2.34-": """
                mirror-ack-manager-page-attempts mirror-ack-manager-queue-attempts mirror-ack-manager-retry-delay
                mirror-page-transaction
                """,
            "2.38-": "mirror-ack-manager-warn-unacked",
            "2.40-": "global-max-size-percent-of-jvm-max-memory",
            "2.42-": "mqtt-subscription-persistence-enabled uuid-namespace",
            "2.43-": "purge-page-folders",
            "2.51-": "lock-coordinators",
            "2.53-": "jmx-notification-enabled",
            "2.56-": "journal-lock-monitor-max-retries journal-lock-monitor-timeout",
            "2.7-": "address-queue-scan-period federations node-manager-lock-directory",
            "2.9-": "metrics-plugin reject-empty-validated-user",
        },
        "wildcard-addresses": {
            "": "any-words delimiter enabled single-word",
            "2.4-": "routing-enabled",
        },
    },
}
"""By broker and element: the names by the versions that know them, such as ``2.18-2.20`` or ``2.43-``; empty: all."""
