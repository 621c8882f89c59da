package polyshop.service;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.zaxxer.hikari.HikariDataSource;
import io.micrometer.core.instrument.binder.jvm.JvmMemoryMetrics;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import javax.sql.DataSource;
import org.slf4j.LoggerFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.jackson.JacksonAutoConfiguration;
import org.springframework.boot.autoconfigure.jdbc.DataSourceAutoConfiguration;
import org.springframework.boot.web.context.WebServerInitializedEvent;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Import;
import org.springframework.context.event.EventListener;

/** The parts of a service that have nothing to do with events. */
@AutoConfiguration(before = {DataSourceAutoConfiguration.class, JacksonAutoConfiguration.class})
@Import({Probes.class, Refusals.class})
public class ServiceConfiguration {
    private static final int CONNECTIONS_MAX = 8;
    private static final int CONNECT_TIMEOUT_MS = 5_000;

    /** Connections are made when they are first used: the database may start after the service. */
    @Bean
    DataSource dataSource(Settings settings) {
        HikariDataSource pool = new HikariDataSource();
        pool.setJdbcUrl(settings.jdbcUrl());
        pool.setUsername(settings.databaseUser());
        pool.setPassword(settings.databasePassword());
        pool.setMaximumPoolSize(CONNECTIONS_MAX);
        pool.setMinimumIdle(1);
        pool.setConnectionTimeout(CONNECT_TIMEOUT_MS);
        pool.setInitializationFailTimeout(-1);
        pool.addDataSourceProperty("tcpKeepAlive", "true");
        pool.addDataSourceProperty("socketTimeout", "30");
        return pool;
    }

    /**
     * Strict: a field that is missing, or a number that is text, is an error and no null and no 0.
     */
    @Bean
    ObjectMapper json() {
        return strictJson();
    }

    public static ObjectMapper strictJson() {
        return JsonMapper.builder()
            .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .disable(DeserializationFeature.ACCEPT_FLOAT_AS_INT)
            .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
            .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
            .enable(DeserializationFeature.FAIL_ON_MISSING_CREATOR_PROPERTIES)
            .enable(DeserializationFeature.FAIL_ON_NULL_CREATOR_PROPERTIES)
            .enable(DeserializationFeature.FAIL_ON_NULL_FOR_PRIMITIVES)
            .build();
    }

    @Bean
    PrometheusMeterRegistry metrics() {
        PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
        new JvmMemoryMetrics().bindTo(registry);
        return registry;
    }

    /** When the service ends, it sends the spans that it still has. */
    @Bean(destroyMethod = "close")
    OpenTelemetrySdk telemetry(Settings settings) {
        return Tracing.start(settings);
    }

    @Bean
    Tracer tracer(OpenTelemetrySdk telemetry) {
        return telemetry.getTracer("polyshop");
    }

    @Bean
    RequestTracing requestTracing(Tracer tracer) {
        return new RequestTracing(tracer);
    }

    @EventListener
    void listening(WebServerInitializedEvent event) {
        LoggerFactory.getLogger(PolyshopService.class).atInfo()
            .addKeyValue("port", event.getWebServer().getPort()).log("listening");
    }
}
