import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { createServer } from 'node:http';
import {
  type Attributes,
  type Context,
  type ContextManager,
  context,
  createTraceState,
  isSpanContextValid,
  type Link,
  type Meter,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import {
  detectResources,
  envDetector,
  resourceFromAttributes,
  serviceInstanceIdDetector,
} from '@opentelemetry/resources';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { BatchSpanProcessor, type SpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import { RELEASE } from '../postgres/release.ts';
import { within } from '../process/within.ts';
import { standardOutput } from './log-output.ts';

/** Metrics and traces of one part of a process. A part is a service or the gateway. */
export interface Telemetry {
  readonly meter: Meter;
  readonly tracer: Tracer;
  /** Whether spans leave the process. */
  readonly exportsTraces: boolean;
  /** The address that Prometheus scrapes, such as `http://127.0.0.1:9464/metrics`. */
  readonly metricsUrl: string;
  /** Sends the remaining spans and closes the metrics port. */
  stop(): Promise<void>;
}

interface TelemetryOptions {
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
 * which connects a span with its parent. What they say of themselves, `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`
 * may replace and add to.
 */
export async function startTelemetry(o: TelemetryOptions): Promise<Telemetry> {
  shareContext();
  const resource = resourceFromAttributes({
    'service.name': o.service,
    'service.namespace': 'rms',
    'service.version': RELEASE,
  }).merge(detectResources({ detectors: [serviceInstanceIdDetector, envDetector] }));
  const reader = new PrometheusExporter({ preventServerStart: true, withoutScopeInfo: true });
  const meters = new MeterProvider({ resource, readers: [reader] });
  const spanProcessors = processorsOf(o);
  const tracers = new TracerProvider({ resource, spanProcessors });
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
    exportsTraces: spanProcessors.length > 0,
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

/** Returns the `tracestate` of the active span, which others in the trace have written; empty when there is none. */
export function currentTracestate(): string {
  return trace.getSpanContext(context.active())?.traceState?.serialize() ?? '';
}

/**
 * Runs `work` as a part of the trace of `traceparent`: in the active span when this has the same trace. When
 * `traceparent` is empty or malformed, a new trace starts.
 */
export function withTraceparent<T>(
  traceparent: string,
  work: () => Promise<T>,
  tracestate = '',
): Promise<T> {
  const from = contextFrom(traceparent, tracestate);
  const active = trace.getSpanContext(context.active())?.traceId;
  if (active !== undefined && active === trace.getSpanContext(from)?.traceId) return work();
  return context.with(from, work);
}

/**
 * Runs `work` in its own span, which ends with the work. When the work fails, the span has the status ERROR, unless
 * `isError` says that the caller caused it.
 *
 * @param o.traceparent `traceparent` of the caller. When empty, a new trace starts. When undefined, the active span is
 *   the parent.
 * @param o.tracestate `tracestate` of the caller, which is passed on.
 */
export function inSpan<T>(
  tracer: Tracer,
  o: {
    name: string;
    kind?: SpanKind;
    traceparent?: string;
    tracestate?: string;
    attributes?: Attributes;
    links?: Link[];
    isError?: (error: unknown) => boolean;
  },
  work: (span: Span) => Promise<T>,
): Promise<T> {
  const parent =
    o.traceparent === undefined ? context.active() : contextFrom(o.traceparent, o.tracestate);
  const span = tracer.startSpan(
    o.name,
    {
      kind: o.kind ?? SpanKind.INTERNAL,
      ...(o.attributes && { attributes: o.attributes }),
      ...(o.links && { links: o.links }),
    },
    parent,
  );
  return context.with(trace.setSpan(parent, span), async () => {
    try {
      return await work(span);
    } catch (error) {
      if (o.isError?.(error) ?? true) span.setStatus({ code: SpanStatusCode.ERROR });
      throw error;
    } finally {
      span.end();
    }
  });
}

/** Keeps the active context across every `await`, with AsyncLocalStorage. */
export class AsyncContextManager implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>();

  active(): Context {
    return this.#storage.getStore() ?? ROOT_CONTEXT;
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    active: Context,
    work: F,
    thisArg?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#storage.run(active, () => work.call(thisArg, ...args));
  }

  bind<T>(active: Context, target: T): T {
    if (typeof target !== 'function') return target;
    const bound = (...args: unknown[]) => this.#storage.run(active, () => target(...args));
    return Object.assign(bound, target);
  }

  enable(): this {
    return this;
  }

  disable(): this {
    this.#storage.disable();
    return this;
  }
}

/** The form of `traceparent`: version, trace id, span id and flags. Later versions may append fields. */
const TRACEPARENT = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-.*)?$/;

/**
 * Returns the `traceparent` of the span in `active`; empty when it has no span.
 *
 * @see https://www.w3.org/TR/trace-context/#traceparent-header
 */
export function traceparentOf(active: Context): string {
  const span = trace.getSpanContext(active);
  if (!span || !isSpanContextValid(span)) return '';
  const flags = (span.traceFlags & 0xff).toString(16).padStart(2, '0');
  return `00-${span.traceId}-${span.spanId}-${flags}`;
}

/**
 * Returns a context whose parent is the span of `traceparent`. Returns the root context when that is empty or
 * malformed.
 */
export function contextFrom(traceparent: string, tracestate = ''): Context {
  const [, traceId = '', spanId = '', flags = ''] = TRACEPARENT.exec(traceparent) ?? [];
  const span: SpanContext = {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
    ...(tracestate !== '' && { traceState: createTraceState(tracestate) }),
  };
  return isSpanContextValid(span) ? trace.setSpanContext(ROOT_CONTEXT, span) : ROOT_CONTEXT;
}

interface MetricsEndpointOptions {
  readonly reader: PrometheusExporter;
  readonly host: string;
  /** TCP port. With 0 the kernel chooses a free one. */
  readonly port: number;
  /** The result of `/readyz`. Without this function, the path does not exist. */
  readonly isReady?: () => Promise<boolean>;
}

/**
 * Serves `/metrics` for Prometheus on a port of its own. It also serves `/readyz` for the kubelet there, because the
 * kubelet's gRPC probes do not support TLS.
 */
async function serveMetrics(
  o: MetricsEndpointOptions,
): Promise<{ url: string; close(): Promise<void> }> {
  const { reader, host, port, isReady } = o;
  const server = createServer(async (request, response) => {
    if (request.url === '/metrics') return reader.getMetricsRequestHandler(request, response);
    if (request.url !== '/readyz' || !isReady) return response.writeHead(404).end();
    const ready = await isReady().catch(() => false);
    return response.writeHead(ready ? 200 : 503).end();
  });
  server.listen(port, host);
  await once(server, 'listening');
  const address = server.address();
  const bound = typeof address === 'object' && address ? address.port : port;
  return {
    url: `http://${host === '0.0.0.0' ? '127.0.0.1' : host}:${bound}/metrics`,
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/** Adds metrics of the process: memory, CPU time and dropped log lines, measured at each scrape. */
function measureProcess(meter: Meter): void {
  meter
    .createObservableGauge('process.resident.memory.bytes', { description: 'Resident memory' })
    .addCallback((result) => result.observe(process.memoryUsage.rss()));
  meter
    .createObservableCounter('process.cpu.seconds', { description: 'CPU time used' })
    .addCallback((result) => {
      const { user, system } = process.cpuUsage();
      result.observe((user + system) / 1e6);
    });
  meter
    .createObservableCounter('log.lines.dropped', {
      description: 'Log lines that could not be written to standard output',
    })
    .addCallback((result) => result.observe(standardOutput().dropped()));
}
