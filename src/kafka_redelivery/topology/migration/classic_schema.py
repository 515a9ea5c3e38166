"""The names and types in ``activemq.xml``, from the XML schema of ActiveMQ Classic 5.18."""

from __future__ import annotations

from kafka_redelivery.topology.migration.schema import Shape, words

NAMESPACE = "http://activemq.apache.org/schema/core"

_DESTINATIONS = frozenset(("queue", "tempQueue", "tempTopic", "topic"))


def _types(**names: str) -> dict[str, str]:
    """Return the type of each attribute, from lists of names by type."""
    return {name: kind for kind, listed in names.items() for name in listed.split()}


SHAPES = {
    "broker": Shape(
        _types(
            boolean="""
        adjustUsageLimits allowTempAutoCreationOnSend anonymousProducerAdvisorySupport cacheTempDestinations
        dedicatedTaskRunner enableMessageExpirationOnActiveDurableSubs enableStatistics
        keepDurableSubsActive monitorConnectionSplits networkConnectorStartAsync populateJMSXUserID
        populateUserNameInMBeans rejectDurableConsumers restartAllowed rollbackOnlyOnAsyncException
        shutdownOnMasterFailure splitSystemUsageForProducersConsumers start startAsync
        useAuthenticatedPrincipalForJMSXUserID useLocalHostBrokerName useLoggingForShutdownErrors
        useMirroredQueues useShutdownHook useTempMirroredQueues useVirtualDestSubs
        useVirtualDestSubsOnCreation useVirtualTopics
            """,
            string="""
        adminView brokerContext brokerId brokerName brokerObjectName consumerSystemUsage dataDirectory
        dataDirectoryFile destinationFactory destinationPolicy diskUsageCheckRegrowThreshold
        ioExceptionHandler jobSchedulerStore managementContext messageAuthorizationPolicy
        persistenceAdapter persistenceFactory persistenceTaskRunnerFactory producerSystemUsage
        regionBroker schedulerDirectory schedulerDirectoryFile sslContext startException systemUsage
        taskRunnerFactory tempDataStore tmpDataDirectory vmConnectorURI id
            """,
            editor="""
        advisorySupport deleteAllMessagesOnStartup passiveSlave persistent schedulerSupport
        shutdownOnSlaveFailure systemExitOnShutdown useJmx waitForSlave
            """,
            integer="""
        consumerSystemUsagePortion maxPurgedDestinationsPerSweep maxSchedulerRepeatAllowed
        maxUncommittedCount persistenceThreadPriority producerSystemUsagePortion
        schedulePeriodForDestinationPurge schedulePeriodForDiskUsageCheck storeOpenWireVersion
        systemExitOnShutdownExitCode taskRunnerPriority timeBeforePurgeTempDestinations
            """,
            long="""
        mbeanInvocationTimeout offlineDurableSubscriberTaskSchedule offlineDurableSubscriberTimeout
        waitForSlaveTimeout
            """,
        ),
        words(
            """
            adminView brokerContext brokerObjectName consumerSystemUsage dataDirectoryFile destinationFactory
            destinationInterceptors destinationPolicy destinations ioExceptionHandler jmsBridgeConnectors
            jobSchedulerStore managementContext messageAuthorizationPolicy networkConnectorURIs
            networkConnectors persistenceAdapter persistenceFactory persistenceTaskRunnerFactory plugins
            producerSystemUsage proxyConnectors regionBroker schedulerDirectoryFile services shutdownHooks
            sslContext startException systemUsage taskRunnerFactory tempDataStore tmpDataDirectory
            transportConnectorURIs transportConnectors vmConnectorURI
            """
        ),
    ),
    "policyMap": Shape(
        _types(
            string="defaultEntry id",
        ),
        frozenset(["defaultEntry", "entries", "policyEntries"]),
    ),
    "policyEntry": Shape(
        _types(
            boolean="""
        advancedNetworkStatisticsEnabled advisoryForConsumed advisoryForDelivery
        advisoryForDiscardingMessages advisoryForDispatched advisoryForFastProducers
        advisoryForSlowConsumers advisoryWhenFull allConsumersExclusiveByDefault alwaysRetroactive
        doOptimzeMessageStorage enableAudit gcInactiveDestinations gcWithNetworkConsumers
        includeBodyForAdvisory lazyDispatch optimizedDispatch persistJMSRedelivered prioritizedMessages
        producerFlowControl reduceMemoryFootprint sendAdvisoryIfNoConsumers sendDuplicateFromStoreToDLQ
        sendFailIfNoSpace strictOrderDispatch tempQueue tempTopic useCache useConsumerPriority
        usePrefetchExtension useTopicSubscriptionInflightStats
            """,
            long="""
        blockedProducerWarningInterval expireMessagesPeriod inactiveTimeoutBeforeGC inactiveTimoutBeforeGC
        minimumMessageSize sendFailIfNoSpaceAfterTimeout
            """,
            integer="""
        consumersBeforeDispatchStarts cursorMemoryHighWaterMark durableTopicPrefetch maxAuditDepth
        maxBrowsePageSize maxDestinations maxExpirePageSize maxPageSize maxProducersToAudit
        maxQueueAuditDepth optimizeMessageStoreInFlightLimit queueBrowserPrefetch queuePrefetch
        storeUsageHighWaterMark timeBeforeDispatchStarts topicPrefetch
            """,
            memory="memoryLimit",
            string="""
        deadLetterStrategy destination dispatchPolicy messageEvictionStrategy
        messageGroupMapFactory messageGroupMapFactoryType messageInterceptorStrategy
        networkBridgeFilterFactory pendingDurableSubscriberPolicy pendingMessageLimitStrategy
        pendingQueuePolicy pendingSubscriberPolicy queue slowConsumerStrategy subscriptionRecoveryPolicy
        topic id
            """,
        ),
        words(
            """
            deadLetterStrategy destination dispatchPolicy messageEvictionStrategy messageGroupMapFactory
            messageInterceptorStrategy networkBridgeFilterFactory pendingDurableSubscriberPolicy
            pendingMessageLimitStrategy pendingQueuePolicy pendingSubscriberPolicy slowConsumerStrategy
            subscriptionRecoveryPolicy
            """
        ),
    ),
    "sharedDeadLetterStrategy": Shape(
        _types(
            string="deadLetterQueue id",
            boolean="enableAudit processExpired processNonPersistent",
            long="expiration",
            integer="maxAuditDepth maxProducersToAudit",
        ),
        frozenset(["deadLetterQueue"]),
    ),
    "individualDeadLetterStrategy": Shape(
        _types(
            boolean="""
        destinationPerDurableSubscriber enableAudit processExpired processNonPersistent
        useQueueForQueueMessages useQueueForTopicMessages
            """,
            long="expiration",
            integer="maxAuditDepth maxProducersToAudit",
            string="queuePrefix queueSuffix topicPrefix topicSuffix id",
        ),
        frozenset(),
    ),
    "discarding": Shape(
        _types(
            string="deadLetterQueue id",
            boolean="enableAudit processExpired processNonPersistent",
            long="expiration",
            integer="maxAuditDepth maxProducersToAudit",
        ),
        frozenset(["deadLetterQueue"]),
    ),
    "redeliveryPlugin": Shape(
        _types(
            string="adminConnectionContext next redeliveryPolicyMap id",
            boolean="fallbackToDeadLetter sendToDlqIfMaxRetriesExceeded",
        ),
        frozenset(["adminConnectionContext", "next", "redeliveryPolicyMap"]),
    ),
    "redeliveryPolicyMap": Shape(
        _types(
            string="defaultEntry id",
        ),
        frozenset(["defaultEntry", "entries", "redeliveryPolicyEntries"]),
    ),
    "redeliveryPolicy": Shape(
        _types(
            double="backOffMultiplier",
            short="collisionAvoidancePercent",
            string="destination queue topic id",
            long="initialRedeliveryDelay maximumRedeliveryDelay redeliveryDelay",
            integer="maximumRedeliveries",
            boolean="preDispatchCheck tempQueue tempTopic useCollisionAvoidance useExponentialBackOff",
        ),
        frozenset(["destination"]),
    ),
    "discardingDLQBrokerPlugin": Shape(
        _types(
            boolean="dropAll dropTemporaryQueues dropTemporaryTopics",
            string="dropOnly id",
            integer="reportInterval",
        ),
        frozenset(),
    ),
    "deadLetterStrategy": Shape({}, words("discarding individualDeadLetterStrategy sharedDeadLetterStrategy")),
    "deadLetterQueue": Shape({}, _DESTINATIONS),
    "destination": Shape({}, _DESTINATIONS),
}
"""The shapes of the elements that are imported; other elements are not checked."""

ELEMENTS = words(
    """
            abortSlowAckConsumerStrategy abortSlowConsumerStrategy authenticationUser authorizationEntry
            authorizationMap authorizationPlugin axionJDBCAdapter blobJDBCAdapter broker brokerService
            bytesJDBCAdapter cachedLDAPAuthorizationMap cachedMessageGroupMapFactory
            chainMessageInterceptorStrategy clientIdFilterDispatchPolicy compositeDemandForwardingBridge
            compositeQueue compositeTopic conditionalNetworkBridgeFilterFactory connectionDotFilePlugin
            connectionFactory constantPendingMessageLimitStrategy database-locker db2JDBCAdapter
            defaultIOExceptionHandler defaultJDBCAdapter defaultNetworkBridgeFilterFactory defaultUsageCapacity
            demandForwardingBridge destinationDotFilePlugin destinationEntry destinationPathSeparatorPlugin
            destinationsPlugin discarding discardingDLQBrokerPlugin fileCursor fileDurableSubscriberCursor
            fileQueueCursor filteredDestination filteredKahaDB fixedCountSubscriptionRecoveryPolicy
            fixedSizedSubscriptionRecoveryPolicy forcePersistencyModeBroker forcePersistencyModeBrokerPlugin
            forwardingBridge headerMessageInterceptorStrategy hsqldb-jdbc-adapter imageBasedJDBCAdaptor
            inboundQueueBridge inboundTopicBridge individualDeadLetterStrategy informixJDBCAdapter
            jDBCIOExceptionHandler jaasAuthenticationPlugin jaasCertificateAuthenticationPlugin
            jaasDualAuthenticationPlugin jdbcPersistenceAdapter jmsQueueConnector jmsTopicConnector
            jobSchedulerUsage journalPersistenceAdapter journalPersistenceAdapterFactory journaledJDBC kahaDB
            lDAPAuthorizationMap lastImageSubscriptionRecoveryPolicy ldapNetworkConnector lease-database-locker
            leaseLockerIOExceptionHandler loggingBrokerPlugin mKahaDB managementContext maxdb-jdbc-adapter
            memoryPersistenceAdapter memoryUsage messageGroupHashBucketFactory mirroredQueue
            multicastNetworkConnector multicastTraceBrokerPlugin mysql-jdbc-adapter networkConnector
            noSubscriptionRecoveryPolicy oldestMessageEvictionStrategy
            oldestMessageWithLowestPriorityEvictionStrategy oracleBlobJDBCAdapter oracleJDBCAdapter
            outboundQueueBridge outboundTopicBridge pListStoreImpl partitionBrokerPlugin policyEntry policyMap
            pooledConnectionFactory postgresql-jdbc-adapter prefetchPolicy
            prefetchRatePendingMessageLimitStrategy priorityDispatchPolicy priorityNetworkDispatchPolicy
            proxyConnector publishedAddressPolicy queryBasedSubscriptionRecoveryPolicy queue
            queueDispatchSelector reconnectionPolicy redeliveryPlugin redeliveryPolicy redeliveryPolicyMap
            retainedMessageSubscriptionRecoveryPolicy roundRobinDispatchPolicy runtimeConfigurationPlugin
            shared-file-locker sharedDeadLetterStrategy simpleAuthenticationPlugin simpleAuthorizationMap
            simpleDispatchPolicy simpleDispatchSelector simpleJmsMessageConvertor simpleMessageGroupMapFactory
            sqlServerJDBCAdapter sslContext statements statisticsBrokerPlugin storeCursor
            storeDurableSubscriberCursor storeUsage streamJDBCAdapter strictOrderDispatchPolicy
            sybase-jdbc-adapter systemUsage taskRunnerFactory tempDestinationAuthorizationEntry tempQueue
            tempTopic tempUsage timeStampingBrokerPlugin timedSubscriptionRecoveryPolicy topic
            traceBrokerPathPlugin transact-database-locker transact-jdbc-adapter transportConnector
            udpTraceBrokerPlugin uniquePropertyMessageEvictionStrategy usageCapacity
            virtualDestinationInterceptor virtualSelectorCacheBrokerPlugin virtualTopic vmCursor vmDurableCursor
            vmQueueCursor xaConnectionFactory
            """
)
"""All elements that may be among plugins and entries."""

PLUGINS = words(
    """
            authorizationPlugin connectionDotFilePlugin destinationDotFilePlugin destinationPathSeparatorPlugin
            destinationsPlugin discardingDLQBrokerPlugin forcePersistencyModeBrokerPlugin
            jaasAuthenticationPlugin jaasCertificateAuthenticationPlugin jaasDualAuthenticationPlugin
            loggingBrokerPlugin multicastTraceBrokerPlugin partitionBrokerPlugin redeliveryPlugin
            runtimeConfigurationPlugin simpleAuthenticationPlugin statisticsBrokerPlugin
            timeStampingBrokerPlugin traceBrokerPathPlugin udpTraceBrokerPlugin
            virtualSelectorCacheBrokerPlugin
            """
)
"""Elements that may be in ``<plugins>``."""

HOLDS_ONE = frozenset(("defaultEntry", "deadLetterQueue", "destination", "destinationPolicy"))
"""Properties that contain exactly one element."""

HOLDS_ELEMENTS = frozenset(SHAPES) | frozenset(
    (
        "defaultEntry",
        "destinationPolicy",
        "destinations",
        "entries",
        "plugins",
        "policyEntries",
        "queue",
        "redeliveryPolicyEntries",
        "tempQueue",
        "tempTopic",
        "topic",
    )
)
"""Elements that contain no text."""

NEVER_A_REFERENCE = words(
    "brokerName dropOnly name physicalName queue queuePrefix queueSuffix topic topicPrefix topicSuffix"
)
"""Attributes that are always text: the broker fails on a value that starts with ``#``."""
