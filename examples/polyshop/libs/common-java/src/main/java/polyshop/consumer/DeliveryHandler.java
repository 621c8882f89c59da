package polyshop.consumer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.micrometer.core.instrument.MeterRegistry;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Scope;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Map;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.Header;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;
import org.springframework.transaction.support.TransactionTemplate;
import polyshop.service.Tracing;

/**
 * One try of one delivery: inbox and handler in a transaction, within a span of the event's trace.
 */
public final class DeliveryHandler {
    private static final Logger LOG = LoggerFactory.getLogger(DeliveryHandler.class);

    private final Map<String, EventHandler> handlers;
    private final ProcessedEvents processed;
    private final TransactionTemplate transactions;
    private final DeadLetters deadLetters;
    private final ObjectMapper json;
    private final Tracer tracer;
    private final ConsumerMetrics metrics;

    public DeliveryHandler(
        Collection<EventHandler> handlers, ProcessedEvents processed,
        TransactionTemplate transactions, DeadLetters deadLetters, ObjectMapper json,
        Tracer tracer, MeterRegistry registry, String service
    ) {
        this.handlers = handlers.stream()
            .collect(Collectors.toMap(EventHandler::eventType, Function.identity()));
        this.processed = processed;
        this.transactions = transactions;
        this.deadLetters = deadLetters;
        this.json = json;
        this.tracer = tracer;
        this.metrics = new ConsumerMetrics(registry, service);
    }

    ConsumerMetrics metrics() {
        return metrics;
    }

    /**
     * Whether the event is done with: handled now or before, or dead-lettered. Else it is to be
     * tried again.
     */
    boolean settle(ConsumerRecord<byte[], byte[]> record, int tried) {
        JsonNode message = EventEnvelope.read(json, record.value());
        Span span = tracer.spanBuilder("consume")
            .setParent(Tracing.parent(traceparent(record, message)))
            .setSpanKind(SpanKind.CONSUMER)
            .setAttribute("messaging.system", "kafka")
            .setAttribute("messaging.destination.name", record.topic())
            .startSpan();
        String traceId = text(message, "/metadata/traceId");
        // For every log line, also about an event that is malformed otherwise.
        MDC.put("traceId", traceId == null ? span.getSpanContext().getTraceId() : traceId);
        MDC.put("eventId", text(message, "/eventId"));
        try (Scope scope = span.makeCurrent()) {
            apply(message, span);
            return true;
        } catch (RuntimeException error) {
            span.setStatus(StatusCode.ERROR);
            return Failures.isPermanent(error)
                ? bury(record, message, Failures.message(error), tried) : tryAgain(error, tried);
        } finally {
            MDC.clear();
            span.end();
        }
    }

    private void apply(JsonNode message, Span span) {
        EventEnvelope event = EventEnvelope.of(json, message);
        span.setAttribute("messaging.message.id", event.eventId().toString());
        EventHandler handler = handlers.get(event.eventType());
        if (handler == null) {
            throw new PermanentException("Validation failed: no handler for this type of event");
        }
        Boolean isNew = transactions.execute(status -> {
            boolean entered = processed.enter(event);
            if (entered) {
                handler.handle(event);
            }
            return entered;
        });
        (isNew ? metrics.handled : metrics.duplicates).increment();
        LOG.info(isNew ? "handled" : "duplicate");
    }

    private boolean tryAgain(RuntimeException error, int tried) {
        metrics.retried.increment();
        LOG.atWarn().addKeyValue("error", Failures.message(error)).addKeyValue("tried", tried)
            .log("failed, is tried again");
        return false;
    }

    /** It is not in processed_events, so that it runs when it is sent again. */
    private boolean bury(
        ConsumerRecord<byte[], byte[]> record, JsonNode message, String error, int tried
    ) {
        try {
            deadLetters.send(record, message, error);
        } catch (RuntimeException unsent) {
            return tryAgain(unsent, tried);
        }
        metrics.deadLettered.increment();
        LOG.atError().addKeyValue("error", error).log("dead-lettered");
        return true;
    }

    /** A relay that sends no such header leaves it in the envelope. */
    private static String traceparent(ConsumerRecord<byte[], byte[]> record, JsonNode message) {
        Header header = record.headers().lastHeader(Tracing.TRACEPARENT);
        return header == null || header.value() == null
            ? text(message, "/metadata/traceparent")
            : new String(header.value(), StandardCharsets.UTF_8);
    }

    private static String text(JsonNode message, String path) {
        return message == null ? null : message.at(path).textValue();
    }
}
