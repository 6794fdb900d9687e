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

/** Metrics and traces of one part of a process. A part is a service or the gateway. */
export interface Telemetry {
  readonly meter: Meter;
  readonly tracer: Tracer;
  /** The address that Prometheus scrapes, such as `http://127.0.0.1:9464/metrics`. */
  readonly metricsUrl: string;
  /** Sends the remaining spans and closes the metrics port. */
  stop(): Promise<void>;
}

export interface TelemetryOptions {
  /** Name of the part. It is `service.name` in its traces. */
  readonly service: string;
  /** TCP port of `/metrics`; 0 takes a free one. */
  readonly metricsPort: number;
  /** Address of `/metrics`; loopback by default. */
  readonly host?: string;
  /** Base address of an OTLP/HTTP collector. Without it, spans still have ids, but they are not exported. */
  readonly otlpEndpoint?: string | undefined;
  /** The result of `/readyz` on the metrics port. */
  readonly isReady?: () => Promise<boolean>;
  /** Additional processors of spans (tests). */
  readonly spanProcessors?: readonly SpanProcessor[];
}

/** How long a stop or an export waits for a collector, which may be unavailable. Milliseconds. */
const FLUSH_MS = 3_000;

/**
 * Starts the traces and metrics of one part.
 *
 * Several parts may run in one process. Each has its own providers. They share only the context manager of the process,
 * which connects a span with its parent.
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
      // The stop must succeed even when the collector is unavailable. Its spans are then lost.
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

/** Registers the context manager. The API uses only the first registration of a process. */
function shareContext(): void {
  const manager = new AsyncContextManager();
  if (!context.setGlobalContextManager(manager)) manager.disable();
}

/** Returns the W3C trace context of the active span; empty when there is no span. */
export function currentTraceparent(): string {
  return traceparentOf(context.active());
}

/** Runs `work` as a part of the trace of `traceparent`. When that is empty or malformed, a new trace starts. */
export function withTraceparent<T>(traceparent: string, work: () => Promise<T>): Promise<T> {
  return context.with(contextFrom(traceparent), work);
}

/**
 * Runs `work` in its own span, which ends with the work. When the work fails, the span has the status ERROR.
 *
 * @param o.traceparent `traceparent` of the caller. When empty, a new trace starts. When undefined, the active span is
 *   the parent.
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
