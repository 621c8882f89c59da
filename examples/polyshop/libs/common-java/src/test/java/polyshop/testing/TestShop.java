package polyshop.testing;

import static polyshop.testing.Eventually.eventually;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.web.servlet.context.ServletWebServerApplicationContext;
import org.springframework.context.ApplicationContextInitializer;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.support.GenericApplicationContext;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import polyshop.consumer.EventHandler;
import polyshop.service.PolyshopService;
import polyshop.service.Settings;

/**
 * A database schema and topics of the test's own, on the real servers, and a service that runs on
 * them.
 */
public final class TestShop implements AutoCloseable {
    private static final int PARTITIONS = 3;
    private static final String POSTGRES = server("POSTRIDER_TEST_POSTGRES_URL");
    private static final String KAFKA = server("POSTRIDER_TEST_KAFKA");
    private static final ObjectMapper JSON = new ObjectMapper();

    public final Settings settings;
    public final JdbcClient database;
    private final String schema = "java_" + UUID.randomUUID().toString().replace("-", "");
    private final Admin admin = Admin.create(Map.of("bootstrap.servers", KAFKA));
    private final Producer<byte[], byte[]> producer = producer(KAFKA, 10_000);
    private final List<ConfigurableApplicationContext> running = new ArrayList<>();
    private final List<String> topics;

    /** @param eventTypes get a topic and a dead-letter topic */
    public TestShop(String service, String... eventTypes) {
        String joint = POSTGRES.contains("?") ? "&" : "?";
        String url = POSTGRES + joint + "options=-csearch_path%3D" + schema
            + "&ApplicationName=" + schema;
        settings = Settings.from(Map.of(
            "DATABASE_URL", url, "KAFKA_BOOTSTRAP", KAFKA, "TOPIC_PREFIX", schema + ".",
            "LISTEN", "127.0.0.1:0"), service);
        var source = new DriverManagerDataSource(
            settings.jdbcUrl().replace("ApplicationName=", "ApplicationName=test_"),
            settings.databaseUser(), settings.databasePassword());
        database = JdbcClient.create(source);
        database.sql("CREATE SCHEMA " + schema).update();
        execute(resource("/tables.sql"));
        Path domain = Path.of(System.getProperty("basedir", "."), "../../sql", service + ".sql");
        if (Files.exists(domain)) {
            execute(text(domain));
        }
        topics = Stream.of(eventTypes).map(settings::topic)
            .flatMap(name -> Stream.of(name, name + ".dlt")).toList();
        done(admin.createTopics(topics.stream()
            .map(name -> new NewTopic(name, PARTITIONS, (short) 1)).toList()).all());
    }

    private static String server(String variable) {
        String address = System.getenv(variable);
        if (address == null) {
            throw new IllegalStateException(
                "please set " + variable + ": eval \"$(scripts/services up)\" starts the servers");
        }
        return address;
    }

    public void execute(String sql) {
        database.sql(sql).update();
    }

    public long count(String fromWhere) {
        return database.sql("SELECT count(*) FROM " + fromWhere).query(Long.class).single();
    }

    /**
     * Starts the service, with these handlers beside those that it has; it listens on a free port.
     */
    public ServletWebServerApplicationContext start(
        Class<?> application, EventHandler... handlers
    ) {
        return start(application, List.of(), handlers);
    }

    public ServletWebServerApplicationContext start(
        Class<?> application, List<String> arguments, EventHandler... handlers
    ) {
        SpringApplication service = PolyshopService.configure(application, settings);
        ApplicationContextInitializer<GenericApplicationContext> register = context -> {
            for (EventHandler handler : handlers) {
                context.registerBean(handler.eventType(), EventHandler.class, () -> handler);
            }
        };
        service.addInitializers(register);
        var context = (ServletWebServerApplicationContext) service.run(
            arguments.toArray(String[]::new));
        running.add(context);
        return context;
    }

    /** The name of the database sessions of a started service. */
    public String sessions() {
        return schema;
    }

    public static Producer<byte[], byte[]> producer(String bootstrap, int blockMaxMs) {
        return new KafkaProducer<>(
            Map.of("bootstrap.servers", bootstrap, "max.block.ms", blockMaxMs),
            new ByteArraySerializer(), new ByteArraySerializer());
    }

    /** Sends a message as it is, and waits for the broker. */
    public void send(String eventType, String key, byte[] value, String... headers) {
        var message = new ProducerRecord<>(settings.topic(eventType), bytes(key), value);
        for (int i = 0; i < headers.length; i += 2) {
            message.headers().add(headers[i], bytes(headers[i + 1]));
        }
        done(producer.send(message));
    }

    /** Sends an event with this data and metadata, and gives its id. */
    public UUID send(String eventType, String key, Map<String, ?> data, Map<String, ?> metadata) {
        UUID id = UUID.randomUUID();
        send(eventType, key, bytes(envelope(id, eventType, data, metadata)));
        return id;
    }

    public static String envelope(
        UUID id, String eventType, Map<String, ?> data, Map<String, ?> metadata
    ) {
        Map<String, Object> envelope = new HashMap<>(Map.of(
            "eventId", id, "timestamp", "2026-01-01T00:00:00Z", "eventType", eventType,
            "version", 1, "source", "test", "data", data, "metadata", metadata));
        try {
            return JSON.writeValueAsString(envelope);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    public static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    public static JsonNode json(byte[] value) {
        try {
            return JSON.readTree(value);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Everything that a topic holds, partition by partition. */
    public List<ConsumerRecord<byte[], byte[]>> records(String eventType) {
        Map<String, Object> config = Map.of("bootstrap.servers", KAFKA);
        var deserializer = new ByteArrayDeserializer();
        try (var consumer = new KafkaConsumer<>(config, deserializer, deserializer)) {
            List<TopicPartition> partitions = consumer
                .partitionsFor(settings.topic(eventType)).stream()
                .map(info -> new TopicPartition(info.topic(), info.partition())).toList();
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            var ends = consumer.endOffsets(partitions);
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            while (partitions.stream().anyMatch(it -> consumer.position(it) < ends.get(it))) {
                consumer.poll(java.time.Duration.ofMillis(100)).forEach(records::add);
            }
            return records;
        }
    }

    public List<ConsumerRecord<byte[], byte[]>> until(String eventType, int count) {
        return eventually(eventType, () -> records(eventType), records -> records.size() == count);
    }

    /** Waits until the service has committed the offsets of all that the topic holds. */
    public void untilConsumed(String eventType) {
        String topic = settings.topic(eventType);
        eventually("all of " + topic + " is consumed", () -> {
            var committed = done(admin.listConsumerGroupOffsets(settings.group())
                .partitionsToOffsetAndMetadata());
            return committed.entrySet().stream().filter(it -> it.getKey().topic().equals(topic))
                .mapToLong(it -> it.getValue().offset()).sum();
        }, sum -> sum == records(eventType).size());
    }

    public static HttpResponse<String> request(
        ServletWebServerApplicationContext service, String method, String path, String body,
        String... headers
    ) {
        URI uri = URI.create("http://127.0.0.1:" + service.getWebServer().getPort() + path);
        var request = HttpRequest.newBuilder(uri).header("content-type", "application/json")
            .method(method, HttpRequest.BodyPublishers.ofString(body));
        if (headers.length > 0) {
            request.headers(headers);
        }
        try {
            return HttpClient.newHttpClient()
                .send(request.build(), HttpResponse.BodyHandlers.ofString());
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static String resource(String name) {
        try (var stream = TestShop.class.getResourceAsStream(name)) {
            return new String(stream.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static String text(Path path) {
        try {
            return Files.readString(path);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static <T> T done(java.util.concurrent.Future<T> future) {
        try {
            return future.get();
        } catch (ExecutionException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static <T> T done(org.apache.kafka.common.KafkaFuture<T> future) {
        return done(future.toCompletionStage().toCompletableFuture());
    }

    @Override
    public void close() {
        running.forEach(ConfigurableApplicationContext::close);
        producer.close();
        done(admin.deleteTopics(topics).all());
        admin.close();
        execute("DROP SCHEMA " + schema + " CASCADE");
    }
}
