#!/bin/sh
# The Avro deserialiser of confluent-kafka refuses values of at most five bytes that its own serialiser has written, if the
# schema id is in a header.
#
# Versions: confluent-kafka 2.16.0.
# Good guess: with header_schema_id_serializer the schema id leaves the value: it goes into the header __value_schema_id, and
#   AvroDeserializer looks there first, by default. So it reads what AvroSerializer has written, whatever its length.
# Seen: a record with one string, written and read with the same client:
#
#     3 bytes  SerializationError: ... This message was not produced with a Confluent Schema Registry serializer
#     4 bytes  the same
#     5 bytes  the same
#     6 bytes  read
#     7 bytes  read
#
#   The length is compared with that of a value with the id in front of it before the header is looked at. The deserialiser
#   for JSON Schema reads its shortest document, {}, which has two bytes.
# For a user: records with a boolean, a number or a short code fail in each consumer, and the error blames the producer. It
#   shows only in production, since records of tests are usually longer. Keep the id in front of such values.
#
# Needs: python3 with venv, timeout. It uses no network but for the installation. It exits with 0 if all this is still so.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"

python3 -m venv venv
timeout 300 venv/bin/pip install -q --disable-pip-version-check 'confluent-kafka[avro,json]==2.16.0'

cat > lengths.py <<'PYTHON'
from confluent_kafka.schema_registry import SchemaRegistryClient, header_schema_id_serializer
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.serialization import MessageField, SerializationContext, SerializationError

AVRO = '{"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}'
JSON = '{"title": "Flight", "type": "object"}'
IN_HEADER = {"auto.register.schemas": True, "schema.id.serializer": header_schema_id_serializer}


def seen(serialiser, deserialiser, value):
    context = SerializationContext("flights", MessageField.VALUE, [])
    data = serialiser(value, context)
    assert [name for name, _ in context.headers] == ["__value_schema_id"]
    try:
        assert deserialiser(data, context) == value
    except SerializationError as error:
        return f"{len(data)} bytes: {error}"
    return f"{len(data)} bytes: read"


client = SchemaRegistryClient.new_client({"url": "mock://"})
pair = AvroSerializer(client, AVRO, conf=IN_HEADER), AvroDeserializer(client)
for carrier in ("UA", "UAL", "UAL1", "UAL12", "UAL123"):
    print("Avro,", seen(*pair, {"carrier": carrier}))
client = SchemaRegistryClient.new_client({"url": "mock://"})
print("JSON Schema,", seen(JSONSerializer(JSON, client, conf=IN_HEADER), JSONDeserializer(None, schema_registry_client=client), {}))
PYTHON
venv/bin/python lengths.py > seen 2> log || { cat seen log >&2; exit 1; }
refusal='This message was not produced with a Confluent Schema Registry serializer'
cat > expected <<EXPECTED
Avro, 3 bytes: Expecting data framing of length 6 bytes or more but total data size is 3 bytes. $refusal
Avro, 4 bytes: Expecting data framing of length 6 bytes or more but total data size is 4 bytes. $refusal
Avro, 5 bytes: Expecting data framing of length 6 bytes or more but total data size is 5 bytes. $refusal
Avro, 6 bytes: read
Avro, 7 bytes: read
JSON Schema, 2 bytes: read
EXPECTED
cat seen
if cmp -s seen expected; then
    echo "still so"
else
    cat log
    echo "CHANGED: the deserialiser no longer treats short values in this way"
    exit 1
fi
