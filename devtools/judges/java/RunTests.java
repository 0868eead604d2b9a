import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import kafka.test.ClusterConfig;
import kafka.test.annotation.ClusterTemplate;
import kafka.test.annotation.ClusterTest;
import kafka.test.annotation.ClusterTestDefaults;
import kafka.test.annotation.ClusterTests;
import kafka.test.annotation.Type;
import org.junit.jupiter.api.Disabled;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
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
                if (method.isAnnotationPresent(Test.class)) {
                    selected.add(DiscoverySelectors.selectMethod(tests, method));
                    continue;
                }
                int[] iterations = withZooKeeper(tests, method);
                if (iterations.length > 0) {
                    selected.add(DiscoverySelectors.selectIteration(
                        DiscoverySelectors.selectMethod(tests, method), iterations));
                }
            }
        }
        LauncherDiscoveryRequest request = LauncherDiscoveryRequestBuilder.request().selectors(selected).build();
        LauncherFactory.create().execute(request, new Printer(startedBrokers()));
        System.exit(0);  // Threads of Kafka's harness may still run.
    }

    /** The iterations of a test that are with ZooKeeper; none where the method is no test. */
    private static int[] withZooKeeper(Class<?> tests, Method method) throws ReflectiveOperationException {
        if (method.isAnnotationPresent(ParameterizedTest.class)) {
            return byParameters(tests, method);
        }
        List<Type> types = clusterTypes(tests, method);
        return IntStream.range(0, types.size()).filter(each -> types.get(each) == Type.ZK).toArray();
    }

    /** Those whose parameters name ZooKeeper; the first one where the parameters name neither it nor KRaft. */
    private static int[] byParameters(Class<?> tests, Method method) throws ReflectiveOperationException {
        List<String> parameters = new ArrayList<>();
        if (method.isAnnotationPresent(CsvSource.class)) {
            parameters.addAll(List.of(method.getAnnotation(CsvSource.class).value()));
        } else if (method.isAnnotationPresent(ValueSource.class)) {
            parameters.addAll(List.of(method.getAnnotation(ValueSource.class).strings()));
        } else if (method.isAnnotationPresent(org.junit.jupiter.params.provider.MethodSource.class)) {
            for (String name : method.getAnnotation(org.junit.jupiter.params.provider.MethodSource.class).value()) {
                Stream<?> generated = (Stream<?>) tests.getMethod(name).invoke(null);
                generated.forEach(each -> parameters.add(Arrays.toString(((Arguments) each).get())));
            }
        }
        if (parameters.stream().noneMatch(each -> each.contains("zk") || each.contains("kraft"))) {
            return new int[] {0};
        }
        return IntStream.range(0, parameters.size()).filter(each -> parameters.get(each).contains("zk")).toArray();
    }

    /** The kind of cluster of each iteration, as ClusterTestExtensions makes them of the annotations. */
    private static List<Type> clusterTypes(Class<?> tests, Method method) throws ReflectiveOperationException {
        List<Type> types = new ArrayList<>();
        ClusterTemplate template = method.getAnnotation(ClusterTemplate.class);
        if (template != null) {
            Method generator = tests.getDeclaredMethod(template.value());
            generator.setAccessible(true);
            for (Object each : (List<?>) generator.invoke(null)) {
                types.addAll(((ClusterConfig) each).clusterTypes());
            }
        }
        ClusterTestDefaults defaults = tests.getDeclaredAnnotation(ClusterTestDefaults.class);
        Type[] byDefault = defaults != null ? defaults.types() : new Type[] {Type.ZK, Type.KRAFT, Type.CO_KRAFT};
        ClusterTests several = method.getAnnotation(ClusterTests.class);
        Stream.concat(
            Stream.ofNullable(method.getAnnotation(ClusterTest.class)),
            several == null ? Stream.empty() : Stream.of(several.value())
        ).forEach(each -> types.addAll(List.of(each.types().length == 0 ? byDefault : each.types())));
        return types;
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
