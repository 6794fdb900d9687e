import { type Meter, SpanKind } from '@opentelemetry/api';
import type { Request, Response } from 'express';
import { OPERATIONS } from '../../services/contract/operations.ts';
import type { Logger } from '../../services/platform/telemetry/log.ts';
import { logFirst } from '../../services/platform/telemetry/log-seldom.ts';
import { inSpan, type Telemetry } from '../../services/platform/telemetry/telemetry.ts';
import type { Exchange } from './exchange.ts';

/** Upper bounds of the duration histogram, in seconds. */
const BOUNDS_S = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Paths that are not in the access log, because probes request them too often. */
const UNLOGGED: ReadonlySet<string> = new Set(['/livez', '/readyz']);

/** Maximum number of lines about refused requests of strangers. Further ones are counted, so that they fill no disk. */
const STRANGERS_PER_SECOND = 50;

/** What is measured and logged of a complete request. */
interface CompleteRequest {
  readonly method: string;
  readonly status: number;
  readonly seconds: number;
}

/**
 * Observes requests. Each request gets a span, whose parent is the caller's `traceparent`. It also gets one line in the
 * access log, and counts in metrics by route, version and status.
 */
export function createInstrumentation(o: {
  readonly telemetry: Telemetry;
  readonly logger: Logger;
}): (exchange: Exchange, req: Request, res: Response, work: () => void) => void {
  const { meter, tracer } = o.telemetry;
  const measure = requestMetrics(meter);
  const ofStrangers = logFirst(STRANGERS_PER_SECOND, (count) =>
    o.logger.info({ count }, 'more requests without a valid credential were refused'),
  );

  return (exchange, req, res, work) => {
    const { method, originalUrl } = req;
    const [path = ''] = originalUrl.split('?', 1);
    const { traceparent, tracestate } = req.headers;
    const span = {
      name: method,
      kind: SpanKind.SERVER,
      ...(typeof traceparent === 'string' && { traceparent, tracestate: `${tracestate ?? ''}` }),
      attributes: {
        'http.request.method': method,
        'url.path': path,
        'client.address': exchange.address,
      },
    };
    void inSpan(tracer, span, async (span) => {
      const closed = new Promise<void>((resolve) => res.once('close', resolve));
      work();
      if (!res.closed) await closed;
      // Status 499 means that the client disconnected before a response was sent.
      const status = res.headersSent ? res.statusCode : 499;
      const request = { method, status, seconds: (performance.now() - exchange.startedAt) / 1_000 };
      measure(exchange, request);
      if (!UNLOGGED.has(path) && !exchange.isShed) {
        const write = () => logAccess(o.logger, exchange, request);
        const isStranger = status >= 400 && exchange.actorId === undefined;
        if (isStranger) ofStrangers(write);
        else write();
      }
      const route = routeOf(exchange);
      if (exchange.operation) span.updateName(`${method} ${route}`);
      span.setAttributes({ 'http.route': route, 'http.response.status_code': status });
    });
  };
}

/** Names and labels are those of the semantic conventions of OpenTelemetry, so that dashboards of others work. */
function requestMetrics(meter: Meter): (exchange: Exchange, request: CompleteRequest) => void {
  const pastWindow = meter.createCounter('api.version.past_window', {
    description:
      'Requests served by a version past its support window, because there is no newer one',
  });
  const duration = meter.createHistogram('http.server.request.duration.seconds', {
    description: 'Time from the request line to the end of the response',
    advice: { explicitBucketBoundaries: BOUNDS_S },
  });
  const bodyBytes = meter.createCounter('http.server.request.body.bytes', {
    description: 'Bytes of request bodies that were read, after decompression, by operation',
  });
  return (exchange, { method, status, seconds }) => {
    const { operation = 'other', served } = exchange;
    const version = served?.served ?? 'none';
    duration.record(seconds, {
      'http.request.method': METHODS.has(method) ? method : '_OTHER',
      'http.route': routeOf(exchange),
      'http.response.status_code': status,
      'api.version': version,
    });
    if (exchange.bodyBytes > 0) bodyBytes.add(exchange.bodyBytes, { operation });
    if (served?.pastWindow) pastWindow.add(1, { version });
  };
}

/** Callers can invent methods, and each value of a label is a row of the metrics. */
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'OPTIONS']);

const PATHS: ReadonlyMap<string, string> = new Map(
  OPERATIONS.map(({ id, path }) => [id, `/api/{version}${path}`]),
);

/** The path of a REST operation as a template; the name of another one. */
function routeOf({ operation = 'other' }: Exchange): string {
  return PATHS.get(operation) ?? operation;
}

function logAccess(
  logger: Logger,
  exchange: Exchange,
  { method, status, seconds }: CompleteRequest,
): void {
  const { operation = 'other', served, requestId } = exchange;
  const version = served?.served ?? 'none';
  const { address, shopId, actorId, rejection } = exchange;
  const { reason: refused, keyId, clientId } = rejection ?? {};
  const who = { address, shopId, actorId, refused, keyId, clientId };
  const ms = Math.round(seconds * 1_000);
  logger.info(
    { method, operation, version, status, ms, requestId, ...who },
    served?.pastWindow ? 'request to a version past its window' : 'request',
  );
}
