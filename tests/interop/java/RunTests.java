import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs the tests of one of Kafka's classes and prints the outcome of each.
 *
 * <p>{@code java RunTests CLASS [METHOD…]}. Of a test with parameters only the iterations with ZooKeeper are run. A line for
 * each: {@code outcome<TAB>method<TAB>milliseconds<TAB>reason}, where the outcome is {@code passed},
 * {@code failed}, or {@code started-no-broker}.
 */
public final class RunTests {
    private RunTests() { }

    public static void main(String[] arguments) throws ReflectiveOperationException {
        Class<?> tests = Class.forName(arguments[0]);
        List<String> wanted = List.of(arguments).subList(1, arguments.length);
        List<DiscoverySelector> selected = new ArrayList<>();
        for (Method method : tests.getMethods()) {
            if (!method.isAnnotationPresent(Disabled.class) && (wanted.isEmpty() || wanted.contains(method.getName()))) {
                if (method.isAnnotationPresent(ParameterizedTest.class)) {
                    int[] iterations = withZooKeeper(method);
                    if (iterations.length > 0) {
                        selected.add(DiscoverySelectors.selectIteration(
                            DiscoverySelectors.selectMethod(tests, method), iterations));
                    }
                } else if (method.isAnnotationPresent(Test.class)) {
                    selected.add(DiscoverySelectors.selectMethod(tests, method));
                }
            }
        }
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request().selectors(selected).build();
        LauncherFactory.create().execute(request, new Printer(startedBrokers()));
        System.exit(0);  // Threads of Kafka's harness may still run.
    }

    /** The iterations of a test that name ZooKeeper; the first one where the parameters name neither it nor KRaft. */
    private static int[] withZooKeeper(Method method) {
        CsvSource lines = method.getAnnotation(CsvSource.class);
        ValueSource values = method.getAnnotation(ValueSource.class);
        List<String> parameters = List.of(lines != null ? lines.value() : values != null ? values.strings() : new String[0]);
        if (parameters.stream().noneMatch(each -> each.contains("zk") || each.contains("kraft"))) {
            return new int[] {0};
        }
        return IntStream.range(0, parameters.size()).filter(each -> parameters.get(each).contains("zk")).toArray();
    }

    /** The counter of processes, or one that is never 0 where Kafka's own brokers are judged. */
    private static AtomicInteger startedBrokers() throws ReflectiveOperationException {
        if (System.getProperty("judged.command") == null) {
            return null;
        }
        return (AtomicInteger) Class.forName("kafka.server.BrokerProcess").getField("STARTED").get(null);
    }

    private static final class Printer implements TestExecutionListener {
        private final AtomicInteger startedBrokers;
        private final Map<String, Long> beginnings = new HashMap<>();
        private int startedBefore;

        Printer(AtomicInteger startedBrokers) {
            this.startedBrokers = startedBrokers;
        }

        @Override
        public void executionStarted(TestIdentifier test) {
            beginnings.put(test.getUniqueId(), System.nanoTime());
            if (test.isTest() && startedBrokers != null) {
                startedBefore = startedBrokers.get();
            }
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            boolean failed = result.getStatus() != TestExecutionResult.Status.SUCCESSFUL;
            if (!test.isTest() && !failed) {
                return;
            }
            String name = test.getSource().filter(MethodSource.class::isInstance)
                .map(source -> ((MethodSource) source).getMethodName()).orElse(test.getDisplayName());
            String outcome = failed ? "failed" : "passed";
            if (!failed && startedBrokers != null && startedBrokers.get() == startedBefore) {
                outcome = "started-no-broker";
            }
            long tookMs = (System.nanoTime() - beginnings.get(test.getUniqueId())) / 1_000_000;
            String reason = result.getThrowable().map(Printer::shown).orElse("");
            System.out.println(String.join("\t", "outcome", outcome, name, Long.toString(tookMs), reason));
        }

        private static String shown(Throwable thrown) {
            return thrown.toString().replaceAll("\\s+", " ");
        }
    }
}
