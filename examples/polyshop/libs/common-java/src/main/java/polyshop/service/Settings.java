package polyshop.service;

import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * What a service is told by its environment. In every language the names are the same.
 *
 * @param service its name
 * @param databaseUrl DATABASE_URL: where the service's own tables are, its schema first on the
 *   search path
 * @param kafka KAFKA_BOOTSTRAP: host:port of some brokers
 * @param prefix TOPIC_PREFIX: stands before every topic and group, for several shops on one cluster
 * @param listen LISTEN: host:port for HTTP; port 0 is any free one
 * @param collector OTEL_EXPORTER_OTLP_ENDPOINT, or null
 * @param collectorProtocol OTEL_EXPORTER_OTLP_PROTOCOL: grpc or http/protobuf
 */
public record Settings(
    String service, URI databaseUrl, String kafka, String prefix, String listen, String collector,
    String collectorProtocol
) {
    /** @throws IllegalArgumentException that says what to set */
    public static Settings from(Map<String, String> environment, String service) {
        return new Settings(
            service,
            URI.create(required(environment, "DATABASE_URL")),
            required(environment, "KAFKA_BOOTSTRAP"),
            optional(environment, "TOPIC_PREFIX", ""),
            optional(environment, "LISTEN", "127.0.0.1:8080"),
            optional(environment, "OTEL_EXPORTER_OTLP_ENDPOINT", null),
            optional(environment, "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"));
    }

    public Settings {
        if (databaseUrl.getHost() == null || databaseUrl.getPath() == null) {
            throw new IllegalArgumentException(
                "DATABASE_URL cannot be read; "
                    + "please set postgres://user:password@host:port/database");
        }
        if (!listen.matches(".+:[0-9]{1,5}")) {
            throw new IllegalArgumentException("LISTEN is " + listen + "; please set host:port");
        }
    }

    /** Where events of a type go: the topic has the type's name. */
    public String topic(String eventType) {
        return prefix + eventType;
    }

    /** The consumer group of the service. */
    public String group() {
        return prefix + service;
    }

    public String jdbcUrl() {
        int port = databaseUrl.getPort() == -1 ? 5432 : databaseUrl.getPort();
        String query = databaseUrl.getRawQuery() == null ? "" : "?" + databaseUrl.getRawQuery();
        return "jdbc:postgresql://" + databaseUrl.getHost() + ":" + port
            + databaseUrl.getRawPath() + query;
    }

    public String databaseUser() {
        return login(0);
    }

    public String databasePassword() {
        return login(1);
    }

    private String login(int part) {
        String[] login = String.valueOf(databaseUrl.getRawUserInfo()).split(":", 2);
        if (databaseUrl.getRawUserInfo() == null || part >= login.length) {
            return null;
        }
        // In this part of a URL a plus is a plus.
        return URLDecoder.decode(login[part].replace("+", "%2B"), StandardCharsets.UTF_8);
    }

    public String listenHost() {
        return listen.substring(0, listen.lastIndexOf(':')).replaceAll("[\\[\\]]", "");
    }

    public int listenPort() {
        return Integer.parseInt(listen.substring(listen.lastIndexOf(':') + 1));
    }

    /** A variable that is set to nothing is not set. */
    private static String optional(Map<String, String> environment, String name, String otherwise) {
        String value = environment.getOrDefault(name, "");
        return value.isEmpty() ? otherwise : value;
    }

    private static String required(Map<String, String> environment, String name) {
        String value = optional(environment, name, null);
        if (value == null) {
            throw new IllegalArgumentException("please set " + name);
        }
        return value;
    }
}
