import { createRequire } from 'node:module';
import { trace } from '@opentelemetry/api';
import { type DestinationStream, type LoggerOptions, pino, stdTimeFunctions } from 'pino';
import { standardOutput } from './log-output.ts';
import { redactFields, scrubText } from './redaction.ts';

/** Logs events with fields. Never log bodies, credentials, or names and addresses of shoppers. */
export type Logger = pino.Logger;

/**
 * Creates a logger that writes one JSON object in each line, with the current trace.
 *
 * @param o.service the part of the process that logs; a field of every line.
 * @param o.level lines of lower levels are not written.
 * @param o.pretty whether `pino-pretty` makes the lines readable. Production images do not have it.
 * @param o.destination output for the lines; standard output by default.
 * @throws Error when `pretty` is set and `pino-pretty` is not installed.
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
    // Keep errors as redactFields has described them. The serializer of pino would change them again.
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
