import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.types.RawTaggedField;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.Map;

/**
 * Encodes and decodes messages with the classes that Kafka's own generator makes: one JSON question per line in, one
 * JSON answer per line out.
 *
 *   {"message": name, "version": n, "data": {...}}  ->  {"hex": "..."}
 *   {"message": name, "version": n, "hex": "..."}   ->  {"data": {...}, "rest": bytes that were not read}
 *   whatever Kafka refuses                          ->  {"refused": why}
 *
 * Unknown tagged fields, which Kafka's JSON leaves out, stand in any structure as "_tags": {"tag": "hex"}.
 */
public final class Oracle {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final HexFormat HEX = HexFormat.of();
    private static final String[] PACKAGES = {"diskless.oracle.message.", "org.apache.kafka.common.message."};
    private static final String TAGS = "_tags";

    private Oracle() {
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader questions = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            answers.println(JSON.writeValueAsString(answer(JSON.readTree(line))));
            answers.flush();
        }
    }

    private static ObjectNode answer(JsonNode question) {
        ObjectNode answer = JSON.createObjectNode();
        String name = question.get("message").asText();
        short version = (short) question.get("version").asInt();
        try {
            if (question.has("data")) {
                answer.put("hex", HEX.formatHex(encode(name, version, question.get("data"))));
            } else {
                decode(name, version, HEX.parseHex(question.get("hex").asText()), answer);
            }
        } catch (InvocationTargetException error) {
            refuse(answer, error.getCause());
        } catch (ReflectiveOperationException error) {
            // Neither the message nor its class is as expected: not a verdict of Kafka, so nobody may take it for one.
            throw new IllegalStateException(name, error);
        } catch (RuntimeException error) {
            refuse(answer, error);
        }
        return answer;
    }

    private static void refuse(ObjectNode answer, Throwable why) {
        answer.removeAll().put("refused", why.toString());
    }

    private static byte[] encode(String name, short version, JsonNode data) throws ReflectiveOperationException {
        Message message = (Message) find(name, "JsonConverter").getMethod("read", JsonNode.class, short.class).invoke(null, data, version);
        putTags(data, message);
        return MessageUtil.toByteBufferAccessor(message, version).buffer().array();
    }

    private static void decode(String name, short version, byte[] bytes, ObjectNode answer) throws ReflectiveOperationException {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        Class<?> type = find(name, "");
        Message message = (Message) type.getDeclaredConstructor().newInstance();
        message.read(new ByteBufferAccessor(buffer), version);
        answer.set("data", (JsonNode) find(name, "JsonConverter").getMethod("write", type, short.class).invoke(null, message, version));
        answer.put("rest", buffer.remaining());
    }

    /** Puts the unknown tagged fields of a JSON structure, and of those in it, into the message made from it. */
    private static void putTags(JsonNode node, Message message) throws ReflectiveOperationException {
        for (Iterator<Map.Entry<String, JsonNode>> tags = node.path(TAGS).fields(); tags.hasNext();) {
            Map.Entry<String, JsonNode> tag = tags.next();
            message.unknownTaggedFields().add(new RawTaggedField(Integer.parseInt(tag.getKey()), HEX.parseHex(tag.getValue().asText())));
        }
        for (Iterator<Map.Entry<String, JsonNode>> fields = node.fields(); fields.hasNext();) {
            Map.Entry<String, JsonNode> field = fields.next();
            if (field.getValue().path(0).isObject()) {
                Iterator<JsonNode> nodes = field.getValue().iterator();
                for (Object child : (Iterable<?>) message.getClass().getMethod(field.getKey()).invoke(message)) {
                    putTags(nodes.next(), (Message) child);
                }
            }
        }
    }

    private static Class<?> find(String name, String suffix) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            try {
                return Class.forName(prefix + name + "Data" + suffix);
            } catch (ClassNotFoundException absent) {
                continue;  // the next package may have it
            }
        }
        throw new ClassNotFoundException(name + ": neither one of ours nor of kafka-clients");
    }
}
