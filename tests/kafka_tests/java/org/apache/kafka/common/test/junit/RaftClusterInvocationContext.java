package org.apache.kafka.common.test.junit;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.ProcessBuilder.Redirect;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Proxy;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.AbstractMap;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import kafka.network.SocketServer;
import kafka.server.ControllerServer;
import kafka.server.KafkaBroker;
import kafka.server.KafkaConfig;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.GroupProtocol;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.network.ListenerName;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.common.test.ClusterInstance;
import org.apache.kafka.common.test.JaasUtils;
import org.apache.kafka.common.test.api.ClusterConfig;
import org.apache.kafka.common.test.api.Type;
import org.apache.kafka.controller.Controller;
import org.apache.kafka.coordinator.group.GroupCoordinator;
import org.apache.kafka.metadata.LeaderAndIsr;
import org.apache.kafka.metadata.MetadataCache;
import org.apache.kafka.server.fault.FaultHandlerException;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.Extension;
import org.junit.jupiter.api.extension.TestTemplateInvocationContext;
import org.mockito.Mockito;

/**
 * Gives each test a fresh broker in a process of its own, instead of a cluster inside the JVM of the test.
 *
 * <p>Takes the place of the class of this name in kafka-test-common-runtime, which comes later on the class path. The
 * system property server.python names the Python that starts the broker, server.kind which one (penstock or kafka).
 */
public class RaftClusterInvocationContext implements TestTemplateInvocationContext {
    private final String baseDisplayName;
    private final ClusterConfig config;

    public RaftClusterInvocationContext(String baseDisplayName, ClusterConfig config, boolean isCombined) {
        this.baseDisplayName = baseDisplayName;
        this.config = config;
    }

    @Override
    public String getDisplayName(int invocationIndex) {
        return baseDisplayName + " [" + invocationIndex + "]";
    }

    @Override
    public List<Extension> getAdditionalExtensions() {
        BrokerProcess broker = new BrokerProcess(config);
        return List.of(
            (BeforeEachCallback) context -> {
                if (config.isAutoStart()) broker.start();
            },
            (AfterEachCallback) context -> broker.stop(),
            new ClusterInstanceParameterResolver(broker));
    }

    /** A cluster of one broker, of which only the address is known. */
    static final class BrokerProcess implements ClusterInstance {
        private static final List<String> ONE_REPLICA = List.of(
            "offsets.topic.replication.factor",
            "transaction.state.log.replication.factor",
            "transaction.state.log.min.isr",
            "share.coordinator.state.topic.replication.factor",
            "share.coordinator.state.topic.min.isr",
            "min.insync.replicas",
            "default.replication.factor");

        private final ClusterConfig config;
        private final Thread endWithJvm = new Thread(this::endForGood);
        private volatile Process process;
        private Path folder;
        private int port;
        private boolean stopped;
        private boolean endedForGood;

        BrokerProcess(ClusterConfig config) {
            this.config = config;
        }

        @Override
        public void start() {
            try {
                folder = Files.createTempDirectory("kafka-tests-");
                port = freePort();
                Runtime.getRuntime().addShutdownHook(endWithJvm);
                launch();
            } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        /**
         * A port that is free like the two after it, which the other brokers of a cluster get. It is below those that
         * the system gives to connections, so that none takes it while a test restarts its broker.
         */
        private static int freePort() throws IOException {
            IOException last = null;
            for (int attempt = 0; attempt < 1000; attempt++) {
                int first = ThreadLocalRandom.current().nextInt(20_000, 32_000);
                try (ServerSocket one = new ServerSocket(first);
                     ServerSocket two = new ServerSocket(first + 1);
                     ServerSocket three = new ServerSocket(first + 2)) {
                    return one.getLocalPort();
                } catch (IOException e) {
                    last = e;
                }
            }
            throw last;
        }

        /** The test's own settings, as far as one broker can have them. */
        private Map<String, String> settings() {
            Map<String, String> settings = new TreeMap<>(config.serverProperties());
            settings.putAll(config.perServerOverrideProperties().getOrDefault(0, Map.of()));
            settings.put("node.id", "0");
            ONE_REPLICA.forEach(name -> settings.put(name, "1"));
            if (protocol() == SecurityProtocol.SASL_PLAINTEXT) addPlainUsers(settings);
            return settings;
        }

        private SecurityProtocol protocol() {
            return config.brokerSecurityProtocol();
        }

        /** The users that Kafka's own clusters have for these tests, as whom the clients of ClusterInstance log in. */
        private static void addPlainUsers(Map<String, String> settings) {
            settings.putIfAbsent("sasl.enabled.mechanisms", "PLAIN");
            settings.putIfAbsent("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer");
            settings.putIfAbsent("super.users", "User:" + JaasUtils.KAFKA_PLAIN_ADMIN);
            settings.put("listener.name.sasl_plaintext.plain.sasl.jaas.config", String.format(
                "org.apache.kafka.common.security.plain.PlainLoginModule required user_%s=\"%s\" user_%s=\"%s\";",
                JaasUtils.KAFKA_PLAIN_ADMIN, JaasUtils.KAFKA_PLAIN_ADMIN_PASSWORD,
                JaasUtils.KAFKA_PLAIN_USER1, JaasUtils.KAFKA_PLAIN_USER1_PASSWORD));
        }

        /** Starts tests/kafka_tests/server.py, which becomes the broker, and waits until it answers. */
        private void launch() throws IOException, InterruptedException {
            List<String> command = new ArrayList<>(List.of(
                System.getProperty("server.python"), "-m", "tests.kafka_tests.server",
                System.getProperty("server.kind"), folder.toString(), Integer.toString(port), protocol().name));
            settings().forEach((name, value) -> command.add(name + "=" + value));
            File log = folder.resolve("server.log").toFile();
            spawn(new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(Redirect.appendTo(log)));
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(40);
            while (!answers()) {
                if (!process.isAlive() || System.nanoTime() > until) {
                    throw new IllegalStateException("the broker did not start: " + Files.readString(log.toPath()));
                }
                Thread.sleep(20);
            }
        }

        private synchronized void spawn(ProcessBuilder builder) throws IOException {
            if (endedForGood) throw new IllegalStateException("the JVM is ending");
            process = builder.start();
        }

        /** An ApiVersions request of version 0. */
        private boolean answers() {
            byte[] request = {0, 0, 0, 11, 0, 18, 0, 0, 0, 0, 0, 1, 0, 1, 'x'};
            try (Socket socket = new Socket()) {
                socket.connect(new InetSocketAddress("127.0.0.1", port), 500);
                socket.setSoTimeout(2000);
                OutputStream out = socket.getOutputStream();
                out.write(request);
                out.flush();
                InputStream in = socket.getInputStream();
                return in.readNBytes(8).length == 8;
            } catch (IOException e) {
                return false;
            }
        }

        private void end() {
            Process running = process;
            if (running == null) return;
            running.destroy();
            try {
                if (!running.waitFor(15, TimeUnit.SECONDS)) running.destroyForcibly().waitFor();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
            process = null;
        }

        /** No process is left behind, not even one that another thread is about to start. */
        private synchronized void endForGood() {
            endedForGood = true;
            end();
        }

        @Override
        public void stop() {
            end();
            stopped = true;
            if (folder == null) return;
            Runtime.getRuntime().removeShutdownHook(endWithJvm);
            try (Stream<Path> files = Files.walk(folder)) {
                files.sorted(Comparator.reverseOrder()).forEach(file -> file.toFile().delete());
            } catch (IOException e) {
                throw new IllegalStateException(e);
            }
            folder = null;
        }

        @Override
        public void shutdownBroker(int id) {
            end();
        }

        @Override
        public void startBroker(int id) {
            try {
                launch();
            } catch (IOException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override public boolean started() { return process != null; }
        @Override public boolean stopped() { return stopped; }
        @Override public Type type() { return config.clusterTypes().iterator().next(); }
        @Override public ClusterConfig config() { return config; }
        @Override public String bootstrapServers() { return "127.0.0.1:" + port; }
        @Override public String bootstrapControllers() { return "127.0.0.1:" + port; }
        @Override public Set<Integer> controllerIds() { return Set.of(1); }
        @Override public ListenerName clientListener() { return config.brokerListenerName(); }
        @Override public ListenerName controllerListenerName() { return config.controllerListenerName(); }
        @Override public Map<Integer, KafkaBroker> brokers() { return Map.of(0, broker()); }
        @Override public Map<Integer, KafkaBroker> aliveBrokers() { return brokers(); }
        @Override public Optional<FaultHandlerException> firstFatalException() { return Optional.empty(); }
        @Override public Optional<FaultHandlerException> firstNonFatalException() { return Optional.empty(); }
        @Override public Set<GroupProtocol> supportedGroupProtocols() { return Set.of(GroupProtocol.values()); }
        @Override public void waitForReadyBrokers() { }
        @Override public void ensureConsistentMetadata() { }
        @Override public List<Integer> brokerBoundPorts() { return List.of(port); }
        @Override public List<Integer> controllerBoundPorts() { return List.of(port); }

        /** What tests ask of the broker object: is it up, what partitions exist, stop, start. Any other call fails. */
        private KafkaBroker broker() {
            SocketServer socketServer = Mockito.mock(SocketServer.class);
            Mockito.when(socketServer.boundPort(Mockito.any())).thenReturn(port);
            return answering(KafkaBroker.class, Map.of(
                "metadataCache", arguments -> metadataCache(),
                "config", arguments -> brokerConfig(),
                "socketServer", arguments -> socketServer,
                "groupCoordinator", arguments -> answering(GroupCoordinator.class, Map.of(
                    "groupMetadataTopicConfigs", none -> new Properties())),
                "shutdown", arguments -> {
                    end();
                    return null;
                },
                "awaitShutdown", arguments -> null,
                "isShutdown", arguments -> process == null,
                "boundPort", arguments -> port,
                "startup", arguments -> {
                    startBroker(0);
                    return null;
                }));
        }

        /** Found by its id (to look topic ids up), but not among the values, which helpers would wait for. */
        @Override
        public Map<Integer, ControllerServer> controllers() {
            ControllerServer server = Mockito.mock(ControllerServer.class);
            Controller controller = answering(Controller.class, Map.of(
                "findAllTopicIds", arguments -> CompletableFuture.completedFuture(topicIds())));
            Mockito.when(server.controller()).thenReturn(controller);
            return new AbstractMap<>() {
                @Override
                public ControllerServer get(Object id) {
                    return server;
                }

                @Override
                public Set<Map.Entry<Integer, ControllerServer>> entrySet() {
                    return Set.of();
                }
            };
        }

        private Map<String, Uuid> topicIds() {
            try (Admin admin = admin()) {
                Map<String, Uuid> ids = new TreeMap<>();
                admin.listTopics(new ListTopicsOptions().listInternal(true)).listings().get()
                    .forEach(topic -> ids.put(topic.name(), topic.topicId()));
                return ids;
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }

        private MetadataCache metadataCache() {
            return answering(MetadataCache.class, Map.of(
                "getAliveBrokerNodes", arguments -> List.of(new Node(0, "127.0.0.1", port)),
                "hasAliveBroker", arguments -> true,
                "numPartitions", arguments -> Optional.of(partitionsOf((String) arguments[0])).filter(n -> n > 0),
                "getLeaderAndIsr", arguments -> Optional.of(new LeaderAndIsr(0, List.of(0)))
                    .filter(leader -> partitionsOf((String) arguments[0]) > (int) arguments[1])));
        }

        private KafkaConfig brokerConfig() {
            Properties settings = new Properties();
            settings.putAll(settings());
            settings.putAll(Map.of(
                "process.roles", "broker",
                "controller.quorum.bootstrap.servers", "127.0.0.1:1",
                "controller.listener.names", "CONTROLLER",
                "listeners", "EXTERNAL://127.0.0.1:" + port,
                "advertised.listeners", "EXTERNAL://127.0.0.1:" + port,
                "inter.broker.listener.name", "EXTERNAL",
                "listener.security.protocol.map", "EXTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"));
            return new KafkaConfig(settings);
        }

        private static <T> T answering(Class<T> type, Map<String, Function<Object[], Object>> answers) {
            InvocationHandler handler = (self, called, arguments) -> {
                Function<Object[], Object> answer = answers.get(called.getName());
                if (answer == null) {
                    throw new UnsupportedOperationException("looks inside the broker: " + called.getName());
                }
                return answer.apply(arguments);
            };
            return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler));
        }

        private int partitionsOf(String topic) {
            try (Admin admin = admin()) {
                return admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size();
            } catch (ExecutionException e) {
                return 0;
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public String clusterId() {
            try (Admin admin = admin()) {
                return admin.describeCluster().clusterId().get();
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public Set<Integer> brokerIds() {
            try (Admin admin = admin()) {
                return Set.of(admin.describeCluster().nodes().get().iterator().next().id());
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public void createTopic(String name, int partitions, short replicas) {
            createTopic(name, partitions, replicas, Map.of());
        }

        @Override
        public void createTopic(String name, int partitions, short replicas, Map<String, String> settings) {
            try (Admin admin = admin()) {
                admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(settings))).all().get();
                waitTopicCreation(name, partitions);
            } catch (Exception e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public void deleteTopic(String name) throws InterruptedException {
            try (Admin admin = admin()) {
                admin.deleteTopics(List.of(name)).all().get();
            } catch (ExecutionException e) {
                throw new IllegalStateException(e);
            }
            waitTopicDeletion(name);
        }

        /** Asks the broker itself, which has no authorizer object here. */
        @Override
        public void waitAcls(AclBindingFilter filter, Collection<AccessControlEntry> expected)
                throws InterruptedException {
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
            Set<AccessControlEntry> found;
            do {
                found = acls(filter);
                if (found.equals(Set.copyOf(expected))) return;
                Thread.sleep(20);
            } while (System.nanoTime() < until);
            throw new IllegalStateException("expected the rules " + expected + ", found " + found);
        }

        private Set<AccessControlEntry> acls(AclBindingFilter filter) throws InterruptedException {
            try (Admin admin = admin()) {
                return admin.describeAcls(filter).values().get().stream()
                    .map(AclBinding::entry).collect(Collectors.toSet());
            } catch (ExecutionException e) {
                throw new IllegalStateException(e);
            }
        }

        @Override
        public void waitTopicCreation(String name, int partitions) throws InterruptedException {
            waitFor(name, partitions);
        }

        @Override
        public void waitTopicDeletion(String name) throws InterruptedException {
            waitFor(name, 0);
        }

        private void waitFor(String name, int partitions) throws InterruptedException {
            long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(30);
            while (System.nanoTime() < until) {
                if (partitionsOf(name) == partitions) return;
                Thread.sleep(20);
            }
            throw new IllegalStateException("topic " + name + " never had " + partitions + " partitions");
        }
    }
}
