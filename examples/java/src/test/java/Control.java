import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.function.Predicate;

/** The control port of a cluster that {@code understudy up} runs. */
final class Control {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final HttpClient http = HttpClient.newHttpClient();
    private final String address;
    private final String token;

    private Control(String address, String token) {
        this.address = address;
        this.token = token;
    }

    /** Reads the address and the token from control.json in the run folder, which UNDERSTUDY_RUN names. */
    static Control ofRun() throws IOException {
        String folder = System.getenv("UNDERSTUDY_RUN");
        if (folder == null) {
            throw new IllegalStateException(
                    "UNDERSTUDY_RUN is not set; give it the run folder of `understudy up --control 127.0.0.1:0`");
        }
        JsonNode entry = JSON.readTree(Files.readString(Path.of(folder, "control.json")));
        String address = "http://" + entry.get("host").asText() + ":" + entry.get("port").asInt();
        return new Control(address, entry.get("token").asText());
    }

    /** Sends a request that changes the cluster. Throws IllegalStateException where it is refused. */
    void post(String route, Map<String, ?> body) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(address + route))
                .header("Authorization", "Bearer " + token)
                .POST(HttpRequest.BodyPublishers.ofString(JSON.writeValueAsString(body)))
                .build();
        HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (response.statusCode() != 200) {
            throw new IllegalStateException("POST " + route + ": " + response.statusCode() + " " + response.body());
        }
    }

    /** The addresses of the brokers. */
    String bootstrap() throws IOException, InterruptedException {
        return cluster().get("bootstrap").asText();
    }

    /** The id of the controller; -1 where there is none. */
    int controller() throws IOException, InterruptedException {
        return cluster().get("controller").asInt(-1);
    }

    /** Waits until a broker other than {@code before} is the controller. */
    void waitForAnotherController(int before) throws IOException, InterruptedException {
        waitUntil("a broker other than " + before + " is controller", now -> {
            int controller = now.get("controller").asInt(-1);
            return controller != -1 && controller != before;
        });
    }

    /** Waits until every broker is registered: one that an earlier test has killed starts again. */
    void waitForAllBrokers() throws IOException, InterruptedException {
        waitUntil("every broker is registered", now -> {
            for (JsonNode broker : now.get("brokers")) {
                if (!broker.get("registered").asBoolean()) {
                    return false;
                }
            }
            return true;
        });
    }

    private void waitUntil(String what, Predicate<JsonNode> holds) throws IOException, InterruptedException {
        Instant deadline = Instant.now().plus(Duration.ofMinutes(1));
        while (Instant.now().isBefore(deadline)) {
            if (holds.test(cluster())) {
                return;
            }
            Thread.sleep(100);
        }
        throw new AssertionError("not within a minute: " + what);
    }

    private JsonNode cluster() throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(address + "/cluster")).build();
        return JSON.readTree(http.send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
}
