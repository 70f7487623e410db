import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Stream;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.discovery.DiscoverySelectors;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.Launcher;
import org.junit.platform.launcher.LauncherDiscoveryRequest;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.TestPlan;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Runs JUnit tests on request, so that one JVM serves many tests and a driver decides which.
 *
 * <p>TestWorker CLASS ... lists the test methods of these classes: class, method and JUnit's unique id, separated by
 * tabs. TestWorker without arguments reads unique ids from standard input, one per line, runs each test, and reports
 * every invocation as PASS|FAIL|SKIP, name, seconds and reason, then DONE. What the tests themselves print goes to
 * standard error.
 */
public class TestWorker {
    private static final int REASON_CHARACTERS = 600;
    private static final PrintStream REPORT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    public static void main(String[] classes) throws IOException {
        System.setOut(System.err);
        Launcher launcher = LauncherFactory.create();
        if (classes.length > 0) {
            list(launcher, classes);
        } else {
            BufferedReader wanted = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String id = wanted.readLine(); id != null; id = wanted.readLine()) {
                launcher.execute(request(List.of(DiscoverySelectors.selectUniqueId(id))), new Reporter());
                REPORT.println("DONE");
            }
        }
        System.exit(0); // Some tests leave threads behind.
    }

    private static LauncherDiscoveryRequest request(List<? extends DiscoverySelector> selectors) {
        return LauncherDiscoveryRequestBuilder.request()
            .selectors(selectors)
            .configurationParameter("junit.jupiter.extensions.autodetection.enabled", "true")
            .build();
    }

    private static void list(Launcher launcher, String[] classes) {
        TestPlan plan = launcher.discover(request(Stream.of(classes).map(DiscoverySelectors::selectClass).toList()));
        plan.getRoots().stream().flatMap(root -> plan.getDescendants(root).stream()).forEach(test -> {
            if (test.getSource().orElse(null) instanceof MethodSource method) {
                String[] owner = test.getUniqueId().split("\\[class:", 2)[1].split("]", 2);
                REPORT.println(String.join("\t", owner[0], method.getMethodName(), test.getUniqueId()));
            }
        });
    }

    private static final class Reporter implements TestExecutionListener {
        private final Map<String, Long> startedNanos = new ConcurrentHashMap<>();

        @Override
        public void executionStarted(TestIdentifier test) {
            startedNanos.put(test.getUniqueId(), System.nanoTime());
        }

        @Override
        public void executionSkipped(TestIdentifier test, String reason) {
            report("SKIP", test, 0, reason);
        }

        @Override
        public void executionFinished(TestIdentifier test, TestExecutionResult result) {
            boolean failed = result.getStatus() != TestExecutionResult.Status.SUCCESSFUL;
            if (!test.isTest() && !failed) return; // A class or a template; its invocations report for themselves.
            double seconds = (System.nanoTime() - startedNanos.get(test.getUniqueId())) / 1e9;
            report(failed ? "FAIL" : "PASS", test, seconds, result.getThrowable().map(Reporter::reason).orElse(""));
        }

        private static void report(String status, TestIdentifier test, double seconds, String reason) {
            String line = reason.replaceAll("\\s+", " ");
            line = line.substring(0, Math.min(REASON_CHARACTERS, line.length()));
            REPORT.printf("%s\t%s\t%.1f\t%s%n", status, name(test), seconds, line);
        }

        /** An error and its causes, with the place where each cause arose. */
        private static String reason(Throwable error) {
            StringBuilder text = new StringBuilder(error.toString());
            for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
                text.append(" <- ").append(cause);
                Stream.of(cause.getStackTrace()).limit(2).forEach(place -> text.append(" at ").append(place));
            }
            return text.toString();
        }

        /** ConsumerBounceTest#testClose[2]: the class without its package, the method, the invocation's number. */
        private static String name(TestIdentifier test) {
            return test.getUniqueId()
                .replaceAll("\\[engine:[^\\]]*\\]/?", "")
                .replaceAll("\\[class:(?:[a-z]+\\.)*([A-Za-z0-9$]+)\\]", "$1")
                .replaceAll("/\\[(?:test-template|method|test-factory):([A-Za-z0-9_]+)\\([^\\]]*\\)\\]", "#$1")
                .replaceAll("/\\[test-template-invocation:#(\\d+)\\]", "[$1]");
        }
    }
}
