package polyshop.service;

import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.context.Scope;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import org.slf4j.MDC;
import org.springframework.web.filter.OncePerRequestFilter;
import org.springframework.web.servlet.HandlerMapping;

/**
 * A span for each request, in its caller's trace where it names one, with the trace id in its log
 * lines.
 */
final class RequestTracing extends OncePerRequestFilter {
    private final Tracer tracer;

    RequestTracing(Tracer tracer) {
        this.tracer = tracer;
    }

    @Override
    protected boolean shouldNotFilter(HttpServletRequest request) {
        return Probes.PATHS.contains(request.getRequestURI());
    }

    @Override
    protected void doFilterInternal(
        HttpServletRequest request, HttpServletResponse response, FilterChain chain
    ) throws ServletException, IOException {
        Span span = tracer.spanBuilder(request.getMethod())
            .setParent(Tracing.parent(request.getHeader(Tracing.TRACEPARENT)))
            .setSpanKind(SpanKind.SERVER)
            .setAttribute("http.request.method", request.getMethod())
            .startSpan();
        MDC.put("traceId", span.getSpanContext().getTraceId());
        try (Scope scope = span.makeCurrent()) {
            chain.doFilter(request, response);
        } finally {
            // The route, not the path: names of spans are few.
            Object route = request.getAttribute(HandlerMapping.BEST_MATCHING_PATTERN_ATTRIBUTE);
            if (route != null) {
                span.updateName(request.getMethod() + " " + route);
            }
            span.setAttribute("http.response.status_code", response.getStatus());
            if (response.getStatus() >= 500) {
                span.setStatus(StatusCode.ERROR);
            }
            MDC.clear();
            span.end();
        }
    }
}
