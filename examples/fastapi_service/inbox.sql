CREATE TABLE IF NOT EXISTS redelivery_inbox (
    consumer_group text NOT NULL,
    effect text NOT NULL,
    message_id text NOT NULL,
    timestamp_ms integer NOT NULL,
    content text NOT NULL,
    done_at text NOT NULL DEFAULT CURRENT_TIMESTAMP,
    PRIMARY KEY (message_id, consumer_group, effect, timestamp_ms, content)
);
CREATE INDEX IF NOT EXISTS redelivery_inbox_done_at ON redelivery_inbox (done_at);
