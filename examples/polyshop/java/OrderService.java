import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Instant;
import java.util.Properties;
import java.util.UUID;
import java.util.concurrent.Executors;

/**
 * order-service in Java: POST /orders writes an order, its items and the event's row in one transaction.
 *
 * Of Postrider it knows the table outbox_events and nothing else. A relay publishes what stands there.
 */
public class OrderService {
    static final String ORDER = "INSERT INTO orders (id, user_id, total_amount)"
        + " SELECT ?, body->>'userId', (SELECT sum(item.quantity * item.price)"
        + " FROM jsonb_to_recordset(body->'items') AS item (quantity bigint, price bigint))"
        + " FROM (SELECT ?::jsonb AS body) AS request";
    static final String ITEMS = "INSERT INTO order_items (order_id, product_id, quantity, price)"
        + " SELECT ?, item.\"productId\", item.quantity, item.price"
        + " FROM jsonb_to_recordset(?::jsonb->'items') AS item (\"productId\" text, quantity integer, price bigint)";
    /** The payload is the event's data, without an envelope: the relay builds that. */
    static final String EVENT = "INSERT INTO outbox_events (id, aggregate_id, event_type, payload, metadata)"
        + " SELECT ?, id, 'order.order.placed.v1', json_build_object('orderId', id, 'userId', user_id,"
        + " 'items', ?::jsonb->'items', 'totalAmount', total_amount), jsonb_strip_nulls(jsonb_build_object("
        + " 'traceId', ?::text, 'traceparent', ?::text, 'correlationId', coalesce(?, id::text),"
        + " 'idempotencyKey', ?::text, 'userId', user_id)) FROM orders WHERE id = ?";

    final String jdbcUrl;
    final Properties login = new Properties();

    OrderService(URI database) {
        String query = database.getRawQuery() == null ? "" : "?" + database.getRawQuery();
        jdbcUrl = "jdbc:postgresql://" + database.getHost() + ":" + database.getPort() + database.getPath() + query;
        String[] user = database.getUserInfo().split(":", 2);
        login.setProperty("user", user[0]);
        if (user.length > 1) login.setProperty("password", user[1]);
    }

    /** The order and its event, or neither. */
    void place(UUID order, UUID event, String body, Trace trace, HttpExchange request) throws SQLException {
        try (Connection database = DriverManager.getConnection(jdbcUrl, login)) {
            database.setAutoCommit(false);
            String correlation = request.getRequestHeaders().getFirst("X-Correlation-Id");
            String idempotency = request.getRequestHeaders().getFirst("Idempotency-Key");
            execute(database, ORDER, order, body);
            if (execute(database, ITEMS, order, body) == 0) throw new SQLException("an order has items", "22023");
            execute(database, EVENT, event, body, trace.id(), trace.parent, correlation, idempotency, order);
            database.commit();
        }
    }

    static int execute(Connection database, String sql, Object... values) throws SQLException {
        try (PreparedStatement statement = database.prepareStatement(sql)) {
            for (int i = 0; i < values.length; i++) statement.setObject(i + 1, values[i]);
            return statement.executeUpdate();
        }
    }

    void answer(HttpExchange request) throws IOException {
        UUID order = UUID.randomUUID(), event = UUID.randomUUID();
        Trace trace = new Trace(request.getRequestHeaders().getFirst("Traceparent"));
        String body = new String(request.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        int status = 201;
        String answer = "{\"orderId\":\"" + order + "\",\"eventId\":\"" + event + "\"}";
        try {
            if (!request.getRequestMethod().equals("POST")) throw new SQLException("only POST", "22023");
            place(order, event, body, trace, request);
            log("INFO", "order placed", "eventId", event, "traceId", trace.id(), "orderId", order);
        } catch (SQLException error) {
            // Classes 22 and 23: the request's values are not those of an order.
            String state = String.valueOf(error.getSQLState());
            status = state.startsWith("22") || state.startsWith("23") ? 422 : 500;
            answer = "{\"error\":\"order not placed\"}";
            log("WARN", "order not placed", "traceId", trace.id(), "error", error.getMessage());
        }
        byte[] bytes = answer.getBytes(StandardCharsets.UTF_8);
        request.getResponseHeaders().set("Content-Type", "application/json");
        request.sendResponseHeaders(status, bytes.length);
        request.getResponseBody().write(bytes);
        request.close();
    }

    /** The caller's W3C trace context, or a new one. */
    static class Trace {
        final String parent;

        Trace(String caller) {
            boolean known = caller != null && caller.matches("00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}");
            String digits = (UUID.randomUUID() + "" + UUID.randomUUID()).replace("-", "");
            parent = known ? caller : "00-" + digits.substring(0, 32) + "-" + digits.substring(32, 48) + "-01";
        }

        String id() {
            return parent.substring(3, 35);
        }
    }

    static void log(String level, String message, Object... fields) {
        StringBuilder line = new StringBuilder("{\"timestamp\":\"" + Instant.now() + "\",\"level\":\"" + level
            + "\",\"service\":\"order-service\",\"message\":\"" + message + "\"");
        for (int i = 0; i < fields.length; i += 2) {
            String value = String.valueOf(fields[i + 1]).replaceAll("[\\x00-\\x1f\"\\\\]", " ");
            String quote = fields[i + 1] instanceof Number ? "" : "\"";
            line.append(",\"" + fields[i] + "\":" + quote + value + quote);
        }
        System.err.println(line.append('}'));
    }

    public static void main(String[] arguments) throws IOException {
        OrderService service = new OrderService(URI.create(System.getenv("DATABASE_URL")));
        String[] listen = System.getenv().getOrDefault("LISTEN", "127.0.0.1:8080").split(":");
        HttpServer server = HttpServer.create(new InetSocketAddress(listen[0], Integer.parseInt(listen[1])), 0);
        server.createContext("/orders", service::answer);
        server.setExecutor(Executors.newFixedThreadPool(8));
        server.start();
        log("INFO", "listening", "port", server.getAddress().getPort());
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            server.stop(1);
            Runtime.getRuntime().halt(0);
        }));
    }
}
