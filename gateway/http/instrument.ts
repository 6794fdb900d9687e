import { type Meter, SpanKind } from '@opentelemetry/api';
import type { Request, Response } from 'express';
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
 * access log, and counts in metrics by operation, version and status.
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
    const { traceparent } = req.headers;
    const span = {
      name: `HTTP ${method}`,
      kind: SpanKind.SERVER,
      ...(typeof traceparent === 'string' && { traceparent }),
      attributes: { 'http.request.method': method },
    };
    void inSpan(tracer, span, async (span) => {
      const closed = new Promise<void>((resolve) => res.once('close', resolve));
      work();
      if (!res.closed) await closed;
      // Status 499 means that the client disconnected before a response was sent.
      const status = res.headersSent ? res.statusCode : 499;
      const request = { method, status, seconds: (performance.now() - exchange.startedAt) / 1_000 };
      measure(exchange, request);
      const [path = ''] = originalUrl.split('?', 1);
      if (!UNLOGGED.has(path) && !exchange.isShed) {
        const write = () => logAccess(o.logger, exchange, request);
        const isStranger = status >= 400 && exchange.actorId === undefined;
        if (isStranger) ofStrangers(write);
        else write();
      }
      if (exchange.operation) span.updateName(`${method} ${exchange.operation}`);
      span.setAttribute('http.response.status_code', res.statusCode);
    });
  };
}

function requestMetrics(meter: Meter): (exchange: Exchange, request: CompleteRequest) => void {
  const requests = meter.createCounter('http.server.requests', {
    description: 'Requests by operation, version and status',
  });
  const pastWindow = meter.createCounter('api.version.past_window', {
    description:
      'Requests served by a version past its support window, because there is no newer one',
  });
  const duration = meter.createHistogram('http.server.request.duration', {
    unit: 's',
    description: 'Time from the request line to the end of the response',
    advice: { explicitBucketBoundaries: BOUNDS_S },
  });
  const bodyBytes = meter.createCounter('http.server.request.body.bytes', {
    description: 'Bytes of request bodies that were read, after decompression, by operation',
  });
  return (exchange, { status, seconds }) => {
    const { operation = 'other', served } = exchange;
    const version = served?.served ?? 'none';
    requests.add(1, { operation, version, status });
    duration.record(seconds, { operation, version, status });
    if (exchange.bodyBytes > 0) bodyBytes.add(exchange.bodyBytes, { operation });
    if (served?.pastWindow) pastWindow.add(1, { version });
  };
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
