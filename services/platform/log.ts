import { createRequire } from 'node:module';
import { trace } from '@opentelemetry/api';
import { type DestinationStream, type LoggerOptions, pino, stdTimeFunctions } from 'pino';
import { standardOutput } from './log-output.ts';
import { redactFields, scrubText } from './redaction.ts';

/** Where a part says what happened: events with fields, never bodies, credentials, names or addresses of shoppers. */
export type Logger = pino.Logger;

/**
 * A logger that writes one JSON object a line, with the trace it belongs to.
 *
 * @param o.service the part that speaks; a field of every line.
 * @param o.level least severe level written.
 * @param o.pretty lines for people, by `pino-pretty`, which production images do not have.
 * @param o.destination where lines go; standard output unless a test reads them.
 * @throws Error when `pretty` is asked for and `pino-pretty` is not installed.
 */
export function createLogger(o: {
  service: string;
  level: string;
  pretty?: boolean;
  destination?: DestinationStream;
}): Logger {
  const options: LoggerOptions = {
    level: o.level,
    base: { service: o.service },
    timestamp: stdTimeFunctions.isoTime,
    formatters: { level: (label) => ({ level: label }), log: redactFields },
    // Errors are described by redactFields; pino's own serializer would flatten them again.
    serializers: { err: (described: unknown) => described },
    hooks: { streamWrite: scrubText },
    mixin: traceFields,
  };
  return pino(options, o.destination ?? (o.pretty ? prettyOutput() : standardOutput()));
}

function traceFields(): Record<string, string> {
  const span = trace.getActiveSpan()?.spanContext();
  return span ? { trace_id: span.traceId, span_id: span.spanId } : {};
}

function prettyOutput(): DestinationStream {
  const require = createRequire(import.meta.url);
  try {
    const { prettyFactory }: typeof import('pino-pretty') = require('pino-pretty');
    const pretty = prettyFactory({
      ignore: 'pid,hostname,service,span_id',
      messageFormat: '{service}: {msg}',
    });
    return { write: (line) => standardOutput().write(pretty(line) ?? line) };
  } catch (cause) {
    throw new Error(
      'LOG_PRETTY needs the development dependency pino-pretty; set LOG_PRETTY=false',
      {
        cause,
      },
    );
  }
}
