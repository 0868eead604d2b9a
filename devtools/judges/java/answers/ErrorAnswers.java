import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.requests.AbstractRequest;

/**
 * Prints Kafka's own error answers: the answer that each request class makes of an error.
 *
 * A line of the input has the API key, the version, the error code, the throttle time and the body of a request in
 * hexadecimal. A line of the output has the body of the answer in hexadecimal, or nothing if Kafka makes none.
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
            System.out.println(answer == null ? "" : hex(MessageUtil.toByteBuffer(answer.data(), version)));
        }
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
