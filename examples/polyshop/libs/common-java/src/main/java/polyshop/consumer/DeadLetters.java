package polyshop.consumer;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.RecordTooLargeException;

/** Puts what can never be handled into {@code {topic}.dlt}, under its own key. */
public final class DeadLetters {
    private static final long ACKNOWLEDGED_WITHIN_SECS = 30;

    private final Producer<byte[], byte[]> producer;
    private final ObjectMapper json;
    private final String service;

    public DeadLetters(Producer<byte[], byte[]> producer, ObjectMapper json, String service) {
        this.producer = producer;
        this.json = json;
        this.service = service;
    }

    /**
     * Returns when the broker has acknowledged the letter.
     *
     * @param message the original as JSON, or null if it is none
     * @throws KafkaException if it has not; the event must not be passed over then
     */
    public void send(ConsumerRecord<byte[], byte[]> original, JsonNode message, String error) {
        String eventId = message == null ? null : message.path("eventId").textValue();
        String failedAt = Instant.now().toString();
        // What is no JSON cannot be a part of the letter, so it is the letter itself.
        byte[] letter = message == null
            ? original.value() : letter(original, eventId, error, failedAt);
        try {
            acknowledged(message(original, letter, eventId, error, failedAt));
        } catch (RecordTooLargeException tooLarge) {
            // The frame around the original was too much for the broker; its bytes alone were not.
            acknowledged(message(original, original.value(), eventId, error, failedAt));
        }
    }

    private byte[] letter(
        ConsumerRecord<byte[], byte[]> original, String eventId, String error, String failedAt
    ) {
        ByteArrayOutputStream letter = new ByteArrayOutputStream();
        try (JsonGenerator generator = json.createGenerator(letter)) {
            generator.writeStartObject();
            generator.writeStringField("eventId", eventId);
            generator.writeFieldName("originalEvent");
            // As it came: read and written again, large numbers would change.
            generator.writeRawValue(new String(original.value(), StandardCharsets.UTF_8));
            generator.writeStringField("errorMessage", error);
            generator.writeStringField("failedAt", failedAt);
            generator.writeStringField("consumerService", service);
            generator.writeEndObject();
        } catch (IOException impossible) {
            throw new IllegalStateException("memory cannot be written to", impossible);
        }
        return letter.toByteArray();
    }

    /**
     * The headers say the same as the letter's fields, for whoever reads the topic without them.
     */
    private ProducerRecord<byte[], byte[]> message(
        ConsumerRecord<byte[], byte[]> original, byte[] value, String eventId, String error,
        String failedAt
    ) {
        var message = new ProducerRecord<>(original.topic() + ".dlt", original.key(), value);
        header(message, "dlt_consumer_service", service);
        header(message, "dlt_error_message", error);
        header(message, "dlt_failed_at", failedAt);
        header(message, "dlt_original_topic", original.topic());
        header(message, "dlt_original_position",
            "%s[%d]@%d".formatted(original.topic(), original.partition(), original.offset()));
        if (eventId != null) {
            header(message, "dlt_event_id", eventId);
        }
        return message;
    }

    private static void header(ProducerRecord<byte[], byte[]> message, String name, String value) {
        message.headers().add(name, value.getBytes(StandardCharsets.UTF_8));
    }

    private void acknowledged(ProducerRecord<byte[], byte[]> message) {
        try {
            producer.send(message).get(ACKNOWLEDGED_WITHIN_SECS, TimeUnit.SECONDS);
        } catch (ExecutionException error) {
            throw error.getCause() instanceof KafkaException cause
                ? cause : new KafkaException(error);
        } catch (TimeoutException error) {
            throw new KafkaException("the broker did not acknowledge a dead letter", error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
            throw new KafkaException("stopped before a dead letter was acknowledged", error);
        }
    }
}
