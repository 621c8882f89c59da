package polyshop.outbox;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Context;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.RecordBatchTooLargeException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.SerializationException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import polyshop.service.Settings;
import polyshop.service.Tracing;

/**
 * Sends a row to its topic, as an envelope with the row's key, within a span of the row's trace.
 */
public final class EventSender {
    /** How long the producer tries, before it gives the row back. */
    public static final Duration DELIVERY_TIMEOUT = Duration.ofSeconds(20);
    private static final Logger LOG = LoggerFactory.getLogger(EventSender.class);

    private final Producer<byte[], byte[]> producer;
    private final EventEnvelopeBuilder envelopes;
    private final Settings settings;
    private final Tracer tracer;
    private final ObjectMapper json;

    public EventSender(
        Producer<byte[], byte[]> producer, EventEnvelopeBuilder envelopes, Settings settings,
        Tracer tracer, ObjectMapper json
    ) {
        this.producer = producer;
        this.envelopes = envelopes;
        this.settings = settings;
        this.tracer = tracer;
        this.json = json;
    }

    /** Never throws: what goes wrong is what {@link Sending#await()} gives. */
    Sending send(OutboxEvent event) {
        Trace trace = trace(event);
        Context parent = Tracing.parent(trace.parent());
        Span span = tracer.spanBuilder("publish").setParent(parent).setSpanKind(SpanKind.PRODUCER)
            .setAttribute("messaging.system", "kafka")
            .setAttribute("messaging.destination.name", settings.topic(event.eventType()))
            .setAttribute("messaging.message.id", event.id().toString())
            .startSpan();
        try {
            byte[] key = event.aggregateId().getBytes(StandardCharsets.UTF_8);
            var message = new ProducerRecord<>(
                settings.topic(event.eventType()), key, envelopes.build(event));
            header(message, "event_id", event.id().toString());
            header(message, "event_type", event.eventType());
            if (Span.fromContext(parent).getSpanContext().isValid()) {
                header(message, Tracing.TRACEPARENT, Tracing.traceparent(parent.with(span)));
            }
            return new Sending(event, trace.id(), producer.send(message), span);
        } catch (RuntimeException error) {
            return new Sending(
                event, trace.id(), CompletableFuture.failedFuture(error), span);
        }
    }

    private static void header(ProducerRecord<byte[], byte[]> message, String name, String value) {
        message.headers().add(name, value.getBytes(StandardCharsets.UTF_8));
    }

    /** What the row knows of its trace: nothing, where it was written by hand. */
    private Trace trace(OutboxEvent event) {
        try {
            JsonNode metadata = json.readTree(event.metadata() == null ? "{}" : event.metadata());
            return new Trace(
                metadata.path("traceId").textValue(),
                metadata.path(Tracing.TRACEPARENT).textValue());
        } catch (JsonProcessingException error) {
            return new Trace(null, null);
        }
    }

    private record Trace(String id, String parent) {}

    /**
     * Whether the same row can never be sent. What an operator of the broker can mend is not such
     * an error.
     */
    static boolean isPermanent(Exception error) {
        return error instanceof RecordTooLargeException
            || error instanceof RecordBatchTooLargeException
            || error instanceof InvalidTopicException
            || error instanceof InvalidRecordException
            || error instanceof SerializationException
            || error instanceof IllegalArgumentException;
    }

    /** A row on its way. */
    record Sending(OutboxEvent event, String traceId, Future<?> acknowledgement, Span span) {
        /** Whether the producer has given it up already: it knows no broker that has this topic. */
        boolean hasNotLeft() {
            if (!acknowledgement.isDone()) {
                return false;
            }
            Exception error = outcome();
            return error != null && !isPermanent(error);
        }

        /** Waits for the broker, and gives what went wrong, or null. */
        Exception await() {
            Exception error = outcome();
            var line = error == null
                ? LOG.atInfo() : isPermanent(error) ? LOG.atError() : LOG.atWarn();
            line = line.addKeyValue("eventId", event.id()).addKeyValue("traceId", traceId);
            if (error == null) {
                line.log("published");
            } else {
                span.setStatus(StatusCode.ERROR);
                String fate = isPermanent(error)
                    ? "not publishable, given up" : "not published, is tried again";
                line.addKeyValue("error", error.getMessage()).log(fate);
            }
            span.end();
            return error;
        }

        private Exception outcome() {
            try {
                acknowledgement.get(2 * DELIVERY_TIMEOUT.toMillis(), TimeUnit.MILLISECONDS);
                return null;
            } catch (ExecutionException error) {
                return error.getCause() instanceof Exception cause ? cause : error;
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
                return error;
            } catch (java.util.concurrent.TimeoutException error) {
                return error;
            }
        }
    }
}
