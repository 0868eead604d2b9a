package kafka.server;

import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.Socket;
import java.net.URI;
import java.nio.ByteBuffer;
import org.apache.kafka.common.requests.AbstractRequest;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.RequestHeader;

/** Sends requests to one broker, each over a connection of its own. */
final class BrokerConnection {
    private static final int TIMEOUT_MS = 10_000;

    private BrokerConnection() { }

    static <T extends AbstractResponse> T send(URI broker, AbstractRequest request, Class<T> response) throws IOException {
        RequestHeader header = new RequestHeader(request.apiKey(), request.version(), "kafkas-own-tests", 1);
        ByteBuffer serialized = request.serializeWithHeader(header);
        byte[] sent = new byte[serialized.remaining()];
        serialized.get(sent);
        try (Socket socket = new Socket(broker.getHost(), broker.getPort())) {
            socket.setSoTimeout(TIMEOUT_MS);
            DataOutputStream output = new DataOutputStream(socket.getOutputStream());
            output.writeInt(sent.length);
            output.write(sent);
            output.flush();
            DataInputStream input = new DataInputStream(socket.getInputStream());
            byte[] received = new byte[input.readInt()];
            input.readFully(received);
            return response.cast(AbstractResponse.parseResponse(ByteBuffer.wrap(received), header));
        }
    }
}
