import { z } from 'zod';
import { kafkaFaults, kafkaSecurityShape } from './bus/kafka-config.ts';
import { INTERNAL_CALLERS } from './grpc/callers.ts';
import { keyringText, parseKeys } from './keyring.ts';
import { transportFaults, transportShape } from './transport-security.ts';

/** What `loadConfig` makes of these variables. The options of a process are its settings, under the same names. */
export type Settings<Shape extends z.ZodRawShape> = z.output<z.ZodObject<Shape>>;

/** Faults in the environment that prevent the start: all of them, one per line. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly faults: readonly string[];

  constructor(faults: readonly string[]) {
    super(`invalid configuration\n${faults.map((fault) => `  ${fault}`).join('\n')}`);
    this.faults = faults;
  }
}

/**
 * Parses environment variables once, at start-up.
 *
 * An empty variable counts as unset. One error lists every missing or malformed variable with the expected form, never
 * with its value, so that all faults of a deployment can be corrected together.
 *
 * @throws ConfigError
 */
export function loadConfig<Shape extends z.ZodRawShape>(
  shape: Shape,
  env: NodeJS.ProcessEnv = process.env,
): Settings<Shape> {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const result = z.object(shape).safeParse(given);
  const faults = [
    ...(result.success ? [] : result.error.issues.map((issue) => faultOf(issue, shape, given))),
    ...('SERVICE_AUTH' in shape ? identityFaults(given) : []),
    ...('KAFKA_TLS' in shape ? kafkaFaults(given) : []),
    ...transportFaults(shape, given),
  ];
  if (result.success && faults.length === 0) return result.data;
  throw new ConfigError([...new Set(faults)].sort());
}

function faultOf(
  issue: z.core.$ZodIssue,
  shape: z.ZodRawShape,
  given: Record<string, unknown>,
): string {
  const name = String(issue.path[0]);
  const field = shape[name];
  const about =
    field && 'description' in field && field.description ? ` (${field.description})` : '';
  return given[name] === undefined
    ? `${name} is missing${about}`
    : `${name}: ${issue.message}${about}`;
}

/** Faults in the combination of the variables of the service identity; see {@link identityShape}. */
function identityFaults(env: Record<string, unknown>): string[] {
  const production = env.NODE_ENV === 'production';
  const kind = env.SERVICE_AUTH ?? 'static';
  if (kind === 'static') {
    if (production) return ['SERVICE_AUTH: production takes kubernetes only'];
    return env.SERVICE_TOKEN === undefined
      ? ['SERVICE_TOKEN is missing (needed where SERVICE_AUTH is static)']
      : [];
  }
  return ['SERVICE_TOKEN_FILE', 'SERVICE_JWKS_FILE', 'SERVICE_ISSUER', 'SERVICE_SUBJECTS']
    .filter((name) => env[name] === undefined)
    .map((name) => `${name} is missing (needed where SERVICE_AUTH is kubernetes)`);
}

/** A TCP port; 0 asks the kernel for a free one. */
export const port = wholeNumber(0, 65_535);

/** Address of the process's own database. */
export const postgresUrl = z.url({
  protocol: /^postgres(ql)?$/,
  error: 'wants postgres://user:password@host:port/database',
});

/** An absolute http or https address. */
export const httpUrl = z.url({ protocol: /^https?$/, error: 'wants an http or https address' });

/** A gRPC name such as `dns:///returns:8080` or `127.0.0.1:9001`. */
export const grpcTarget = z.string().regex(/^\S+$/, 'wants a gRPC name without spaces');

/** The day of the version calendar. */
export const calendarDay = z.iso
  .date({ error: 'wants a date such as 2027-08-01' })
  .transform((day) => new Date(day))
  .optional()
  .describe('Day at which the version calendar stands, for trials; not in production');

/** `true` or `false`. */
export const flag = z
  .enum(['true', 'false'], { error: 'wants true or false' })
  .transform((text) => text === 'true');

/** A whole number within bounds, both included. */
export function wholeNumber(min: number, max: number) {
  const error = `wants a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,15}$/, error)
    .transform(Number)
    .refine((value) => value >= min && value <= max, error);
}

/** A length of time in milliseconds, within bounds. */
export function milliseconds(min: number, max: number) {
  return wholeNumber(min, max);
}

/** Values separated by commas. Blanks around them and empty values are dropped. */
export const list = z.string().transform((text) =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== ''),
);

const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/** The variables of every process. */
export const processShape = {
  ...transportShape,
  NODE_ENV: z
    .enum(['development', 'test', 'production'], {
      error: 'wants development, test or production',
    })
    .default('development')
    .describe('Kind of environment; production switches conveniences off'),
  LOG_LEVEL: z
    .enum(levels, { error: `wants one of ${levels.join(', ')}` })
    .default('info')
    .describe('Least severe level that is logged'),
  LOG_PRETTY: flag.default(false).describe('Logs for people instead of JSON lines'),
  HOST: z.string().default('127.0.0.1').describe('Address to listen on; 0.0.0.0 in a pod'),
  PORT: port.default(8080).describe('TCP port to serve on; 0 takes a free one'),
  METRICS_PORT: port.default(9464).describe('TCP port of /metrics; 0 takes a free one'),
  OTEL_EXPORTER_OTLP_ENDPOINT: httpUrl
    .optional()
    .describe('Base address of an OTLP/HTTP collector; without it no traces leave the process'),
  SHUTDOWN_DELAY_MS: milliseconds(0, 60_000)
    .default(0)
    .describe(
      'Milliseconds between turning unready and refusing work, for load balancers to notice',
    ),
};

/** The variables of a process with a database. */
export const databaseShape = {
  DATABASE_URL: postgresUrl.describe('The own schema, logged in as its role'),
  DATABASE_POOL_MAX: wholeNumber(1, 200)
    .default(10)
    .describe('Most connections this process opens to the database'),
};

/** The variables of a process that publishes or listens. */
export const busShape = {
  ...kafkaSecurityShape,
  KAFKA_BROKERS: list
    .refine((brokers) => brokers.length > 0, 'wants host:port, several separated by commas')
    .describe('Kafka brokers, as host:port separated by commas'),
  KAFKA_TOPICS: z
    .enum(['create', 'check'], { error: 'wants create or check' })
    .default('create')
    .describe(
      'Whether this process creates missing topics; check where clients may not, see services/platform/bus/topics.ts',
    ),
  EVENT_KEYRING: keyringText
    .transform(parseKeys)
    .describe('Keys that sign events, the same in every service; the first signs, all verify'),
  EVENT_SIGNATURES: z
    .enum(['required', 'accept-unsigned'], { error: 'wants required or accept-unsigned' })
    .default('required')
    .describe(
      'Whether events without a signature are skipped; accept-unsigned only while signatures are rolled out',
    ),
  RETENTION_DAYS: wholeNumber(1, 365)
    .default(7)
    .describe('Days for which published events are kept'),
};

/** A service account, or all accounts of a namespace. */
const SUBJECT = /^system:serviceaccount:[a-z0-9-]+:([a-z0-9.-]+|\*)$/;
const ACCOUNT = /^(system:serviceaccount:[a-z0-9-]+:[a-z0-9.-]+)=([a-z-]+)$/;

/** `system:serviceaccount:logistics:labels=labels`, several separated by commas. */
const serviceCallers = list.transform((entries, context) => {
  const callers = entries.map((entry) => ACCOUNT.exec(entry)?.slice(1) ?? []);
  const isKnown = (name = '') => INTERNAL_CALLERS.some((known) => known === name);
  if (!callers.every(([, name]) => isKnown(name))) {
    const message = `wants <service account>=<caller>; callers: ${INTERNAL_CALLERS.join(', ')}`;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  }
  return new Map(callers.map(([account = '', name = '']) => [account, name]));
});

/** How a process proves to others that it is one of ours. */
export const identityShape = {
  SERVICE_AUTH: z
    .enum(['static', 'kubernetes'], { error: 'wants static or kubernetes' })
    .default('static')
    .describe('How services prove themselves to one another; production takes kubernetes only'),
  SERVICE_TOKEN: z
    .string()
    .min(32, 'wants at least 32 characters')
    .optional()
    .describe('Shared token where SERVICE_AUTH is static, at least 32 characters'),
  SERVICE_TOKEN_FILE: z
    .string()
    .optional()
    .describe('File with the own service-account token where SERVICE_AUTH is kubernetes'),
  SERVICE_JWKS_FILE: z
    .string()
    .optional()
    .describe(
      'File with the public keys of the cluster, as a JWKS, where SERVICE_AUTH is kubernetes',
    ),
  SERVICE_ISSUER: z
    .string()
    .optional()
    .describe('Issuer of service-account tokens where SERVICE_AUTH is kubernetes'),
  SERVICE_SUBJECTS: list
    .refine((subjects) => subjects.every((one) => SUBJECT.test(one)), {
      error: 'wants system:serviceaccount:<namespace>:<name or *>, several separated by commas',
    })
    .optional()
    .describe(
      'Service accounts that are ours where SERVICE_AUTH is kubernetes, such as system:serviceaccount:rms:*; the name of the account is that of the caller',
    ),
  SERVICE_CALLERS: serviceCallers
    .default(new Map())
    .describe(
      `Internal services that may call ours, as <service account>=<caller>, several separated by commas; callers: ${INTERNAL_CALLERS.join(', ')}`,
    ),
  GRPC_TLS_CA_FILE: z
    .string()
    .optional()
    .describe(
      'File with the authorities of gRPC certificates; where it is set gRPC goes over TLS. The three files may change while the process runs',
    ),
  GRPC_TLS_CERT_FILE: z
    .string()
    .optional()
    .describe('File with the own certificate, for the names by which others call this process'),
  GRPC_TLS_KEY_FILE: z.string().optional().describe('File with the key of that certificate'),
};

/** Limits of the load on a process that answers gRPC calls. */
const loadShape = {
  MAX_CALLS_IN_FLIGHT: wholeNumber(1, 10_000)
    // More than a gateway admits in a burst, because gateways reject requests first, and more cheaply.
    .default(512)
    .describe(
      'Most calls in flight, of those that only read and of the others; beyond it calls are refused',
    ),
};

/** The variables of every gRPC service. */
export const serviceShape = {
  GRPC_TLS_CLIENT_CERTIFICATES: z
    .enum(['none', 'required'], { error: 'wants none or required' })
    .default('none')
    .describe('Whether gRPC clients must show a certificate of GRPC_TLS_CA_FILE'),
  HEALTH_PORT: port
    .optional()
    .describe(
      'TCP port of the liveness probe: gRPC health in plain text, service rms.liveness; without it there is none',
    ),
  ...loadShape,
  ...processShape,
  ...databaseShape,
  ...busShape,
  ...identityShape,
};

/** {@link serviceShape}, parsed. */
export type ServiceConfig = Settings<typeof serviceShape>;
