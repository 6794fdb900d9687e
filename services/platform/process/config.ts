import { z } from 'zod';
import { kafkaProblems, kafkaSecurityShape } from '../kafka/config.ts';
import { INTERNAL_CALLERS } from '../rpc/callers.ts';
import { keyringText, parseKeys } from '../security/keyring.ts';
import { transportProblems, transportShape } from '../security/transport-security.ts';

/** The parsed variables of a shape, under their own names. They are the options of a process. */
export type Settings<Shape extends z.ZodRawShape> = z.output<z.ZodObject<Shape>>;

/** The environment is invalid, so the process cannot start. The message lists every problem in its own line. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`invalid configuration\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
    this.problems = problems;
  }
}

/**
 * Parses environment variables once, at start-up.
 *
 * An empty variable counts as unset. The error lists every missing or malformed variable with its expected form, so
 * that an operator can correct all problems together. It never contains a value.
 *
 * @throws ConfigError
 */
export function loadConfig<Shape extends z.ZodRawShape>(
  shape: Shape,
  env: NodeJS.ProcessEnv = process.env,
): Settings<Shape> {
  const set = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const result = z.object(shape).safeParse(set);
  const problems = [
    ...(result.success ? [] : result.error.issues.map((issue) => problemOf(issue, shape, set))),
    ...('SERVICE_AUTH' in shape ? identityProblems(set) : []),
    ...('KAFKA_TLS' in shape ? kafkaProblems(set) : []),
    ...transportProblems(shape, set),
  ];
  if (result.success && problems.length === 0) return result.data;
  throw new ConfigError([...new Set(problems)].sort());
}

function problemOf(
  issue: z.core.$ZodIssue,
  shape: z.ZodRawShape,
  set: Record<string, unknown>,
): string {
  const name = String(issue.path[0]);
  const field = shape[name];
  const about =
    field && 'description' in field && field.description ? ` (${field.description})` : '';
  return set[name] === undefined
    ? `${name} is missing${about}`
    : `${name}: ${issue.message}${about}`;
}

/** Returns the problems of variables of the service identity that do not fit together; see {@link identityShape}. */
function identityProblems(env: Record<string, unknown>): string[] {
  const production = env.NODE_ENV === 'production';
  const kind = env.SERVICE_AUTH ?? 'static';
  if (kind === 'static') {
    if (production) return ['SERVICE_AUTH: production allows kubernetes only'];
    return env.SERVICE_TOKEN === undefined
      ? ['SERVICE_TOKEN is missing (needed if SERVICE_AUTH is static)']
      : [];
  }
  return ['SERVICE_TOKEN_FILE', 'SERVICE_JWKS_FILE', 'SERVICE_ISSUER', 'SERVICE_SUBJECTS']
    .filter((name) => env[name] === undefined)
    .map((name) => `${name} is missing (needed if SERVICE_AUTH is kubernetes)`);
}

/** A TCP port; with 0 the kernel chooses a free one. */
export const port = wholeNumber(0, 65_535);

/** Address of the database of the process. */
export const postgresUrl = z.url({
  protocol: /^postgres(ql)?$/,
  error: 'must be postgres://user:password@host:port/database',
});

/** An absolute http or https address. */
export const httpUrl = z.url({ protocol: /^https?$/, error: 'must be an http or https address' });

/** A gRPC name such as `dns:///returns:8080` or `127.0.0.1:9001`. */
export const grpcTarget = z.string().regex(/^\S+$/, 'must be a gRPC name without spaces');

/** The day of the version calendar. */
export const calendarDay = z.iso
  .date({ error: 'must be a date such as 2027-08-01' })
  .transform((day) => new Date(day))
  .optional()
  .describe('Current day of the version calendar, for trials; not in production');

/** A variable whose value is `true` or `false`. */
export const flag = z
  .enum(['true', 'false'], { error: 'must be true or false' })
  .transform((text) => text === 'true');

/** A whole number within bounds, both included. */
export function wholeNumber(min: number, max: number) {
  const error = `must be a whole number from ${min} to ${max}`;
  return z
    .string()
    .regex(/^\d{1,15}$/, error)
    .transform(Number)
    .refine((value) => value >= min && value <= max, error);
}

/** A duration in milliseconds. Both bounds are allowed. */
export function milliseconds(min: number, max: number) {
  return wholeNumber(min, max);
}

/** Values separated by commas. Blanks around values, and empty values, are dropped. */
export const list = z.string().transform((text) =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== ''),
);

/** A list of origins. */
export const originList = list.refine(
  (origins) => origins.every((text) => URL.canParse(text) && new URL(text).origin === text),
  { error: 'must be origins such as https://console.example.com' },
);

const levels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/** The variables of every process. */
export const processShape = {
  ...transportShape,
  NODE_ENV: z
    .enum(['development', 'test', 'production'], {
      error: 'must be development, test or production',
    })
    .default('development')
    .describe('Kind of environment; production switches conveniences off'),
  LOG_LEVEL: z
    .enum(levels, { error: `must be one of ${levels.join(', ')}` })
    .default('info')
    .describe('Least severe level that is logged'),
  LOG_PRETTY: flag.default(false).describe('Logs for people instead of JSON lines'),
  HOST: z.string().default('127.0.0.1').describe('Address to listen on; 0.0.0.0 in a pod'),
  PORT: port.default(8080).describe('TCP port to serve on; 0 takes a free one'),
  METRICS_PORT: port.default(9464).describe('TCP port of /metrics; 0 takes a free one'),
  OTEL_EXPORTER_OTLP_ENDPOINT: httpUrl
    .optional()
    .describe('Base address of an OTLP/HTTP collector; without it no traces leave the process'),
  // The OpenTelemetry library reads these two itself.
  OTEL_SERVICE_NAME: z.string().optional().describe('Name of this process in traces and metrics'),
  OTEL_RESOURCE_ATTRIBUTES: z
    .string()
    .optional()
    .describe('More about this process in traces and metrics, such as `k8s.pod.name=a,team=b`'),
  SHUTDOWN_DELAY_MS: milliseconds(0, 60_000)
    .default(0)
    .describe(
      'Milliseconds between turning unready and rejecting calls, so that load balancers notice',
    ),
};

/** The variables of every process with a database. */
export const databaseShape = {
  DATABASE_URL: postgresUrl.describe('The own schema, logged in as its role'),
  DATABASE_POOL_MAX: wholeNumber(1, 200)
    .default(10)
    .describe('Maximum number of connections that this process opens to the database'),
};

/** The variables of every process that publishes or listens. */
export const busShape = {
  ...kafkaSecurityShape,
  KAFKA_BROKERS: list
    .refine((brokers) => brokers.length > 0, 'must be host:port, several separated by commas')
    .describe('Kafka brokers, as host:port separated by commas'),
  KAFKA_TOPICS: z
    .enum(['create', 'check'], { error: 'must be create or check' })
    .default('create')
    .describe(
      '`create` creates missing topics; `check` creates none, see services/platform/bus/topics.ts',
    ),
  EVENT_KEYRING: keyringText
    .transform(parseKeys)
    .describe(
      'Keys that sign events, the same in every service; the first key signs, all keys verify',
    ),
  RETENTION_DAYS: wholeNumber(1, 365)
    .default(7)
    .describe('Days for which published events are kept'),
};

/** Matches a service account, or all accounts of a namespace. */
const SUBJECT = /^system:serviceaccount:[a-z0-9-]+:([a-z0-9.-]+|\*)$/;
const ACCOUNT = /^(system:serviceaccount:[a-z0-9-]+:[a-z0-9.-]+)=([a-z-]+)$/;

/** Parses `system:serviceaccount:logistics:labels=labels`. Several are separated by commas. */
const serviceCallers = list.transform((entries, context) => {
  const callers = entries.map((entry) => ACCOUNT.exec(entry)?.slice(1) ?? []);
  const isKnown = (name = '') => INTERNAL_CALLERS.some((caller) => caller === name);
  if (!callers.every(([, name]) => isKnown(name))) {
    const message = `must be <service account>=<caller>; callers: ${INTERNAL_CALLERS.join(', ')}`;
    context.addIssue({ code: 'custom', message });
    return z.NEVER;
  }
  return new Map(callers.map(([account = '', name = '']) => [account, name]));
});

/** The variables by which a process proves to other processes that it is one of our own. */
export const identityShape = {
  SERVICE_AUTH: z
    .enum(['static', 'kubernetes'], { error: 'must be static or kubernetes' })
    .default('static')
    .describe('How services authenticate to each other; production allows kubernetes only'),
  SERVICE_TOKEN: z
    .string()
    .min(32, 'must have at least 32 characters')
    .optional()
    .describe('Shared token if SERVICE_AUTH is static, at least 32 characters'),
  SERVICE_TOKEN_FILE: z
    .string()
    .optional()
    .describe('File with the own service-account token if SERVICE_AUTH is kubernetes'),
  SERVICE_JWKS_FILE: z
    .string()
    .optional()
    .describe('File with the public keys of the cluster, as a JWKS, if SERVICE_AUTH is kubernetes'),
  SERVICE_ISSUER: z
    .string()
    .optional()
    .describe('Issuer of service-account tokens if SERVICE_AUTH is kubernetes'),
  SERVICE_SUBJECTS: list
    .refine((subjects) => subjects.every((one) => SUBJECT.test(one)), {
      error: 'must be system:serviceaccount:<namespace>:<name or *>, several separated by commas',
    })
    .optional()
    .describe(
      'Our service accounts if SERVICE_AUTH is kubernetes, such as system:serviceaccount:rms:*; the name of the account is the name of the caller',
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
      'File with the authorities of gRPC certificates; if it is set, gRPC uses TLS. The three files may change while the process runs',
    ),
  GRPC_TLS_CERT_FILE: z
    .string()
    .optional()
    .describe('File with the own certificate, for the names by which others call this process'),
  GRPC_TLS_KEY_FILE: z.string().optional().describe('File with the key of that certificate'),
};

/** Limits of the load on a process that serves gRPC calls. */
const loadShape = {
  MAX_CALLS_IN_FLIGHT: wholeNumber(1, 10_000)
    // The default is more than a gateway admits in a burst. Gateways should reject first, because their rejections cost
    // less.
    .default(512)
    .describe(
      'Maximum number of reads in flight, and of other calls in flight; further calls are rejected',
    ),
};

/** The port of the probes of a process. */
export function healthShape(description: string) {
  return { HEALTH_PORT: port.optional().describe(description) };
}

/** The variables of every gRPC service. */
export const serviceShape = {
  GRPC_TLS_CLIENT_CERTIFICATES: z
    .enum(['none', 'required'], { error: 'must be none or required' })
    .default('none')
    .describe('Whether gRPC clients must show a certificate of GRPC_TLS_CA_FILE'),
  MESH_IDENTITY_HEADER: z
    .enum(['x-forwarded-client-cert', 'l5d-client-id'], {
      error: 'must be x-forwarded-client-cert or l5d-client-id',
    })
    .default('x-forwarded-client-cert')
    .describe(
      'Where the proxy of a mesh names the peer of a call: Envoy (Istio) in x-forwarded-client-cert, Linkerd in l5d-client-id',
    ),
  ...healthShape('TCP port of the liveness probe: gRPC health in plain text, service rms.liveness'),
  ...loadShape,
  ...processShape,
  ...databaseShape,
  ...busShape,
  ...identityShape,
};

/** The parsed variables of {@link serviceShape}. */
export type ServiceConfig = Settings<typeof serviceShape>;
