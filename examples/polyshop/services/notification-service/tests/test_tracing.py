"""Spans as a collector gets them, over OTLP."""

import unittest
from concurrent.futures import ThreadPoolExecutor

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as wire
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service

from notification_service.tracing import (
    CONSUMER, PRODUCER, context_of, start_span, start_tracing,
)

from .fixture import PARENT, TRACE


class Collector(service.TraceServiceServicer):
    def __init__(self):
        self.spans = {}

    def Export(self, request, _context):
        for resource in request.resource_spans:
            [name] = [it.value.string_value for it in resource.resource.attributes]
            for scope in resource.scope_spans:
                self.spans |= {span.name: (name, span) for span in scope.spans}
        return wire.ExportTraceServiceResponse()


class Tracing(unittest.TestCase):
    # A3-14: the trace goes on from the event that was consumed to the one that follows.
    def test_spans_reach_the_collector_in_the_trace_that_they_follow_from(self):
        collector, server = Collector(), grpc.server(ThreadPoolExecutor(1))
        service.add_TraceServiceServicer_to_server(collector, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)
        tracing = start_tracing("notification-service", f"http://127.0.0.1:{port}")
        tracer = tracing.get_tracer("test")
        consume = start_span(tracer, "consume", CONSUMER, PARENT, topic="t", absent=None)
        parent = context_of(consume)["traceparent"]
        start_span(tracer, "publish", PRODUCER, parent).end()
        consume.end()
        tracing.shutdown()

        (name, consume), (_, publish) = collector.spans["consume"], collector.spans["publish"]
        self.assertEqual(name, "notification-service")
        self.assertEqual({consume.trace_id.hex(), publish.trace_id.hex()}, {TRACE})
        self.assertEqual(consume.parent_span_id.hex(), "00f067aa0ba902b7")
        self.assertEqual(publish.parent_span_id, consume.span_id)

    def test_without_a_collector_there_are_ids_and_a_parent_that_is_none_begins_a_trace(self):
        tracer = start_tracing("notification-service").get_tracer("test")
        for parent in (None, "nonsense", f"00-{'0' * 32}-{'0' * 16}-01"):
            context = context_of(start_span(tracer, "consume", CONSUMER, parent))
            self.assertRegex(context["traceId"], "^(?!0{32})[0-9a-f]{32}$")
            self.assertTrue(context["traceparent"].startswith(f"00-{context['traceId']}-"))
