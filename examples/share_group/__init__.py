"""A share group whose dead letters `redelivery dlq` sends again."""
