import { z } from 'zod';

const flag = z
  .enum(['true', 'false'], { error: 'must be true or false' })
  .default('false')
  .transform((text) => text === 'true');

/** The variables for the connections to the brokers. `security.ts` uses them. */
export const kafkaSecurityShape = {
  KAFKA_TLS: flag.describe('Whether connections to Kafka use TLS; required in production'),
  KAFKA_TLS_CA_FILE: z
    .string()
    .optional()
    .describe("File with the authorities of the brokers' certificates; by default the public ones"),
  KAFKA_TLS_CERT_FILE: z
    .string()
    .optional()
    .describe('File with the own certificate, if brokers require one'),
  KAFKA_TLS_KEY_FILE: z.string().optional().describe('File with the key of that certificate'),
  KAFKA_SASL_MECHANISM: z
    .enum(['plain', 'scram-sha-256', 'scram-sha-512', 'oauthbearer'], {
      error: 'must be plain, scram-sha-256, scram-sha-512 or oauthbearer',
    })
    .optional()
    .describe('How this process authenticates to the brokers'),
  KAFKA_SASL_USERNAME: z
    .string()
    .optional()
    .describe('User name; the client id if tokens come from KAFKA_SASL_TOKEN_URL'),
  KAFKA_SASL_PASSWORD: z
    .string()
    .optional()
    .describe('Password of that user, or secret of that client'),
  KAFKA_SASL_PASSWORD_FILE: z
    .string()
    .optional()
    .describe('File with the password, read for every connection; instead of KAFKA_SASL_PASSWORD'),
  KAFKA_SASL_TOKEN_FILE: z
    .string()
    .optional()
    .describe('File with a token that another program renews, for oauthbearer'),
  KAFKA_SASL_TOKEN_URL: z
    .url({ protocol: /^https?$/, error: 'must be an http or https address' })
    .optional()
    .describe(
      'Token endpoint for oauthbearer, by the client credentials grant; https in production',
    ),
  KAFKA_SASL_SCOPE: z.string().optional().describe('Scope in requests to that endpoint'),
};

type Variables = Readonly<Record<string, unknown>>;

/** Returns the problems of variables of {@link kafkaSecurityShape} that do not fit together. */
export function kafkaProblems(env: Variables): string[] {
  return [...tlsProblems(env), ...saslProblems(env)];
}

function tlsProblems(env: Variables): string[] {
  const files = ['KAFKA_TLS_CA_FILE', 'KAFKA_TLS_CERT_FILE', 'KAFKA_TLS_KEY_FILE'];
  const unused = env.KAFKA_TLS === 'true' ? [] : files.filter((name) => env[name] !== undefined);
  const isHalf = (env.KAFKA_TLS_CERT_FILE === undefined) !== (env.KAFKA_TLS_KEY_FILE === undefined);
  return [
    ...unused.map((name) => `${name}: needs KAFKA_TLS=true`),
    ...(isHalf
      ? ['KAFKA_TLS_CERT_FILE and KAFKA_TLS_KEY_FILE are set together or not at all']
      : []),
  ];
}

function saslProblems(env: Variables): string[] {
  const mechanism = env.KAFKA_SASL_MECHANISM;
  if (mechanism === undefined) {
    return Object.keys(kafkaSecurityShape)
      .filter((name) => name.startsWith('KAFKA_SASL_') && env[name] !== undefined)
      .map((name) => `${name}: needs KAFKA_SASL_MECHANISM`);
  }
  if (mechanism === 'oauthbearer' && env.KAFKA_SASL_TOKEN_FILE !== undefined) return [];
  const problems: string[] = [];
  const needVariable = (name: string) => {
    if (env[name] === undefined)
      problems.push(`${name} is missing (KAFKA_SASL_MECHANISM needs it)`);
  };
  needVariable('KAFKA_SASL_USERNAME');
  if (env.KAFKA_SASL_PASSWORD_FILE === undefined) needVariable('KAFKA_SASL_PASSWORD');
  if (mechanism === 'oauthbearer') needVariable('KAFKA_SASL_TOKEN_URL');
  return problems;
}
