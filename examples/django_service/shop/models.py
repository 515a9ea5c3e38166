"""The models of the shop."""

from django.db import models


class Invoice(models.Model):  # type: ignore[misc] # Django has no types
    """An invoice, once for each message id: an invoice that is delivered again changes nothing."""

    message_id = models.CharField(max_length=300, unique=True)
    cents = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.cents} cents"
