import {
  type Attributes,
  context,
  type Meter,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, type SpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { measureProcess, serveMetrics } from './metrics-endpoint.ts';
import { AsyncContextManager, contextFrom, traceparentOf } from './trace-context.ts';
import { within } from './within.ts';

/** Metrics and traces of one part of a process. */
export interface Telemetry {
  readonly meter: Meter;
  readonly tracer: Tracer;
  /** The address for Prometheus, such as `http://127.0.0.1:9464/metrics`. */
  readonly metricsUrl: string;
  /** Sends the remaining spans and closes the metrics port. */
  stop(): Promise<void>;
}

export interface TelemetryOptions {
  /** The part's name, `service.name` of its traces. */
  readonly service: string;
  /** TCP port of `/metrics`; 0 takes a free one. */
  readonly metricsPort: number;
  /** Address of `/metrics`; loopback by default. */
  readonly host?: string;
  /** Base address of an OTLP/HTTP collector. Without it spans have ids and are not exported. */
  readonly otlpEndpoint?: string | undefined;
  /** Decides the response of `/readyz` on the metrics port. */
  readonly isReady?: () => Promise<boolean>;
  /** Further processors of spans (tests). */
  readonly spanProcessors?: readonly SpanProcessor[];
}

/** How long a stop, and an export, waits for a collector that may be unavailable. Milliseconds. */
const FLUSH_MS = 3_000;

/**
 * Starts traces and metrics for one part.
 *
 * Several parts may run in one process, each with its own providers. They share only the context of the process, which
 * connects a span with its parent.
 */
export async function startTelemetry(o: TelemetryOptions): Promise<Telemetry> {
  shareContext();
  const resource = resourceFromAttributes({ 'service.name': o.service });
  const reader = new PrometheusExporter({ preventServerStart: true, withoutScopeInfo: true });
  const meters = new MeterProvider({ resource, readers: [reader] });
  const tracers = new TracerProvider({ resource, spanProcessors: processorsOf(o) });
  const endpoint = await serveMetrics({
    reader,
    host: o.host ?? '127.0.0.1',
    port: o.metricsPort,
    ...(o.isReady && { isReady: o.isReady }),
  });
  const meter = meters.getMeter('rms');
  measureProcess(meter);

  return {
    meter,
    tracer: tracers.getTracer('rms'),
    metricsUrl: endpoint.url,
    async stop() {
      await endpoint.close();
      // The stop succeeds even if the collector is unavailable and its spans are lost.
      await within(FLUSH_MS, Promise.allSettled([tracers.shutdown(), meters.shutdown()]));
    },
  };
}

function processorsOf(o: TelemetryOptions): SpanProcessor[] {
  if (!o.otlpEndpoint) return [...(o.spanProcessors ?? [])];
  const url = `${o.otlpEndpoint.replace(/\/+$/, '')}/v1/traces`;
  const exporter = new OTLPTraceExporter({ url, timeoutMillis: FLUSH_MS });
  return [...(o.spanProcessors ?? []), new BatchSpanProcessor({ exporter })];
}

/** Registers the context manager once per process. The API ignores later registrations. */
function shareContext(): void {
  const manager = new AsyncContextManager();
  if (!context.setGlobalContextManager(manager)) manager.disable();
}

/** The W3C trace context of the active span; empty without one. */
export function currentTraceparent(): string {
  return traceparentOf(context.active());
}

/** Runs `work` as part of the trace of `traceparent`. An empty or malformed one starts a new trace. */
export function withTraceparent<T>(traceparent: string, work: () => Promise<T>): Promise<T> {
  return context.with(contextFrom(traceparent), work);
}

/**
 * Runs `work` in its own span, which ends with the work. If the work fails, the span has the status ERROR.
 *
 * @param o.traceparent `traceparent` of the caller. Empty: a new trace starts. Undefined: the active span is the parent.
 */
export function inSpan<T>(
  tracer: Tracer,
  o: { name: string; kind?: SpanKind; traceparent?: string; attributes?: Attributes },
  work: (span: Span) => Promise<T>,
): Promise<T> {
  const parent = o.traceparent === undefined ? context.active() : contextFrom(o.traceparent);
  const span = tracer.startSpan(
    o.name,
    { kind: o.kind ?? SpanKind.INTERNAL, ...(o.attributes && { attributes: o.attributes }) },
    parent,
  );
  return context.with(trace.setSpan(parent, span), async () => {
    try {
      return await work(span);
    } catch (error) {
      span.setStatus({ code: SpanStatusCode.ERROR });
      throw error;
    } finally {
      span.end();
    }
  });
}
