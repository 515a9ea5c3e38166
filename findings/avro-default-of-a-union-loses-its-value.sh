#!/bin/sh
# Apache Avro accepts a default that fits a later branch of a union, and writes and reads another value in its place.
#
# Versions: Apache Avro 1.12.1 (Java).
# Good guess: the specification of 1.12 says that the default of a union belongs to the first branch that it matches. So the
#   default 2^40 of ["int", "long"] is the long 2^40, as it is in ["long", "int"]; or the parser refuses it, as it refuses
#   2^40 for "int".
# Seen: the parser accepts the schema. A reader whose writer has no such field gets the first branch, with what is left of
#   the number:
#
#     ["int", "long"]      default 1099511627776      Integer 0
#     ["int", "long"]      default 2147483648         Integer -2147483648
#     ["int", "double"]    default 0.5                Integer 0
#
#   GenericRecordBuilder fills in the same values, and they are written. Field.defaultVal() says 2^40 in the first case and
#   null in the third. There is no error, and no line in the log.
# For a user: a new field of an older schema reads as 0, or as a negative number, though the schema names the right one.
#   Put the branch of the default first in the union.
#
# Needs: a JDK of version 17 or newer, mvn, timeout. It exits with 0 if all this is still so.
set -eu

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 1' HUP INT TERM
cd "$folder"

cat > pom.xml <<'POM'
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>finding</groupId>
  <artifactId>avro</artifactId>
  <version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.avro</groupId><artifactId>avro</artifactId><version>1.12.1</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>2.0.17</version></dependency>
  </dependencies>
</project>
POM
timeout 600 mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies -DoutputDirectory=jars

cat > Defaults.java <<'JAVA'
import java.io.ByteArrayOutputStream;
import java.util.HexFormat;
import org.apache.avro.AvroTypeException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.GenericRecordBuilder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;

class Defaults {
    static Schema record(String fields) {
        return new Schema.Parser().parse("{\"type\": \"record\", \"name\": \"Order\", \"fields\": [" + fields + "]}");
    }

    static String typed(Object value) {
        return value == null ? "null" : value.getClass().getSimpleName() + " " + value;
    }

    static String seen(String type, String value) throws Exception {
        Schema schema;
        try {
            schema = record("{\"name\": \"number\", \"type\": " + type + ", \"default\": " + value + "}");
        } catch (AvroTypeException refused) {
            return "refused";
        }
        GenericRecord read = new GenericDatumReader<GenericRecord>(record(""), schema)
                .read(null, DecoderFactory.get().binaryDecoder(new byte[0], null));
        GenericRecord built = new GenericRecordBuilder(schema).build();
        var bytes = new ByteArrayOutputStream();
        var encoder = EncoderFactory.get().binaryEncoder(bytes, null);
        new GenericDatumWriter<GenericRecord>(schema).write(built, encoder);
        encoder.flush();
        return "read " + typed(read.get("number")) + ", built " + typed(built.get("number")) + ", written "
                + HexFormat.of().formatHex(bytes.toByteArray()) + ", defaultVal " + typed(schema.getField("number").defaultVal());
    }

    public static void main(String[] arguments) throws Exception {
        for (String[] each : new String[][] {
                {"\"int\"", "1099511627776"}, {"[\"long\", \"int\"]", "1099511627776"}, {"[\"int\", \"long\"]", "1099511627776"},
                {"[\"int\", \"long\"]", "2147483648"}, {"[\"double\", \"int\"]", "0.5"}, {"[\"int\", \"double\"]", "0.5"}})
            System.out.println(each[0] + " = " + each[1] + ": " + seen(each[0], each[1]));
    }
}
JAVA
timeout 120 java -Xmx256m -XX:TieredStopAtLevel=1 -cp 'jars/*' Defaults.java > seen 2> log || { cat log >&2; exit 1; }
cat > expected <<'EXPECTED'
"int" = 1099511627776: refused
["long", "int"] = 1099511627776: read Long 1099511627776, built Long 1099511627776, written 00808080808040, defaultVal Long 1099511627776
["int", "long"] = 1099511627776: read Integer 0, built Integer 0, written 0000, defaultVal Long 1099511627776
["int", "long"] = 2147483648: read Integer -2147483648, built Integer -2147483648, written 00ffffffff0f, defaultVal Long 2147483648
["double", "int"] = 0.5: read Double 0.5, built Double 0.5, written 00000000000000e03f, defaultVal Double 0.5
["int", "double"] = 0.5: read Integer 0, built Integer 0, written 0000, defaultVal null
EXPECTED
cat seen
if cmp -s seen expected && [ ! -s log ]; then
    echo "still so"
else
    cat log
    echo "CHANGED: Avro no longer treats these defaults in this way"
    exit 1
fi
