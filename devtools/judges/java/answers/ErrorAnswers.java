import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.stream.Collectors;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;

/**
 * Prints Kafka's own error answers, which its request classes make, and reads those of another broker.
 *
 * A line of the input has the API key, the version, the error code, the throttle time, the body of a request and the
 * body of another broker's answer to it, both in hexadecimal. A line of the output has the body of Kafka's answer, and
 * the names of the errors that Kafka's response class counts in the other answer, separated by commas.
 */
public final class ErrorAnswers {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ", -1);
            short version = Short.parseShort(words[1]);
            ByteBuffer body = ByteBuffer.wrap(HexFormat.of().parseHex(words[4]));
            AbstractRequest request =
                AbstractRequest.parseRequest(ApiKeys.forId(Short.parseShort(words[0])), version, body).request;
            Exception error = Errors.forCode(Short.parseShort(words[2])).exception();
            var answer = request.getErrorResponse(Integer.parseInt(words[3]), error);
            ByteBuffer other = ByteBuffer.wrap(HexFormat.of().parseHex(words[5]));
            var counted = AbstractResponse.parseResponse(request.apiKey(), other, version).errorCounts().keySet();
            String names = counted.stream().map(Errors::name).collect(Collectors.joining(","));
            System.out.println(hex(MessageUtil.toByteBuffer(answer.data(), version)) + " " + names);
        }
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
