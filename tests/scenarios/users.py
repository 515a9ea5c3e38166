"""The roles of a group as users of a secured Kafka, each with the rights that are granted to it."""

from kafka_redelivery.topology.cluster.acls import AclRole
from kafka_redelivery.topology.config.loading import load_settings
from kafka_redelivery.topology.config.settings import Settings
from tests.scenarios import commands, redriving
from tests.scenarios.authenticated import Acl, AuthenticatedKafka
from tests.scenarios.running import Group, Process, Role
from tests.scenarios.secured import acls_of

_PARTITIONS = 2


class Users:
    """A group of which every role has a user of its own, without rights at first."""

    def __init__(self, secured: AuthenticatedKafka, group: Group) -> None:
        self.secured = secured
        self.group = group
        secured.add_users(self.name(role) for role in AclRole)

    def name(self, role: str) -> str:
        """The name of the user of a role."""
        return f"{self.group.name}-{role}"

    def configure(self, **sections: object) -> None:
        """Write the configuration, and create source and output."""
        kafka = sections.pop("kafka", {})
        assert isinstance(kafka, dict)
        self.group.configure(
            kafka=self.secured.kafka | kafka, outputs=[{"topic": self.group.output}], limits={"batch": 100}, **sections
        )
        self.group.cluster.create(self.group.source, self.group.output, partitions=_PARTITIONS)

    def acls(self, role: str) -> list[Acl]:
        """What the command prints for a role."""
        done = commands.topology("acls", f"--role={role}", file=self.group.file)
        assert done.code == 0, done.err
        found = acls_of(done.out)
        assert {acl.principal for acl in found} == {f"User:{self.name(role)}"}
        return found

    def grant(self, *roles: str) -> None:
        """Grant what the command prints for these roles."""
        self.secured.grant(acl for role in roles for acl in self.acls(role))

    def apply(self) -> None:
        """Grant the rights of `topology apply`, and run it."""
        self.grant("apply")
        applied = self.topology("apply")
        assert applied.code == 0, applied.err

    def settings(self, role: str) -> Settings:
        """The configuration with the user of a role."""
        user = f"kafka.sasl.username={self.name(role)}"
        return load_settings(self.group.file.read_text(encoding="utf-8"), overrides=[user])

    def topology(self, command: str) -> commands.Done:
        """Run a command of `redelivery topology` as the user `apply`."""
        user = f"--set=kafka.sasl.username={self.name('apply')}"
        return commands.topology(command, user, file=self.group.file)

    def dlq(self, *arguments: str) -> commands.Done:
        """Run `redelivery dlq` as the user `redrive`."""
        return redriving.dlq(self.group, *arguments, f"--set=kafka.sasl.username={self.name('redrive')}")

    def start(self, role: Role, *settings: str) -> Process:
        """Start a process as its user."""
        return self.group.start(role, f"{role}-1", f"kafka.sasl.username={self.name(role)}", *settings)
