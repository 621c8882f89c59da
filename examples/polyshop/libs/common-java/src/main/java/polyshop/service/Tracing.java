package polyshop.service;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.propagation.ContextPropagators;
import io.opentelemetry.context.propagation.TextMapGetter;
import io.opentelemetry.exporter.otlp.http.trace.OtlpHttpSpanExporter;
import io.opentelemetry.exporter.otlp.trace.OtlpGrpcSpanExporter;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.resources.Resource;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.BatchSpanProcessor;
import io.opentelemetry.sdk.trace.export.SpanExporter;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Traces, and how they get from service to service: as W3C {@code traceparent}. */
public final class Tracing {
    public static final String TRACEPARENT = "traceparent";
    private static final Duration EXPORT_INTERVAL = Duration.ofMillis(500);

    private Tracing() {}

    /**
     * Spans go to the collector that the settings name. Without one there are traces too, for logs
     * and events.
     */
    public static OpenTelemetrySdk start(Settings settings) {
        AttributeKey<String> name = AttributeKey.stringKey("service.name");
        Resource resource = Resource.builder().put(name, settings.service()).build();
        var provider = SdkTracerProvider.builder().setResource(resource);
        if (settings.collector() != null) {
            provider.addSpanProcessor(BatchSpanProcessor.builder(exporter(settings))
                .setScheduleDelay(EXPORT_INTERVAL).build());
        }
        return OpenTelemetrySdk.builder()
            .setTracerProvider(provider.build())
            .setPropagators(ContextPropagators.create(W3CTraceContextPropagator.getInstance()))
            .build();
    }

    private static SpanExporter exporter(Settings settings) {
        String collector = settings.collector().replaceAll("/+$", "");
        return switch (settings.collectorProtocol()) {
            case "grpc" -> OtlpGrpcSpanExporter.builder().setEndpoint(collector).build();
            case "http/protobuf" ->
                OtlpHttpSpanExporter.builder().setEndpoint(collector + "/v1/traces").build();
            default -> throw new IllegalArgumentException("OTEL_EXPORTER_OTLP_PROTOCOL is "
                + settings.collectorProtocol() + "; please set grpc or http/protobuf");
        };
    }

    /** The current span as a traceparent; null without one. */
    public static String currentTraceparent() {
        return traceparent(Context.current());
    }

    public static String traceparent(Context context) {
        Map<String, String> carrier = new HashMap<>();
        W3CTraceContextPropagator.getInstance().inject(context, carrier, Map::put);
        return carrier.get(TRACEPARENT);
    }

    /** The context that a traceparent names; the root where it is null or malformed. */
    public static Context parent(String traceparent) {
        return W3CTraceContextPropagator.getInstance().extract(Context.root(), traceparent, ONE);
    }

    private static final TextMapGetter<String> ONE = new TextMapGetter<>() {
        @Override
        public Iterable<String> keys(String carrier) {
            return List.of(TRACEPARENT);
        }

        @Override
        public String get(String carrier, String key) {
            return key.equals(TRACEPARENT) ? carrier : null;
        }
    };
}
