import { z } from 'zod';

/** The variable that says who encrypts the connections: the process itself, or a service mesh. */
export const transportShape = {
  TRANSPORT_SECURITY: z
    .enum(['tls', 'mesh'], { error: 'must be tls or mesh' })
    .default('tls')
    .describe(
      'Who encrypts connections in production: tls, the processes themselves, or mesh, the sidecars of a service mesh, whose identity gRPC calls then need',
    ),
};

/**
 * Returns an error text for each variable whose value is invalid. The variables of gRPC are always checked. Only in
 * production, and only when no mesh encrypts, a connection without TLS is an error, too.
 */
export function transportProblems(shape: object, env: Readonly<Record<string, unknown>>): string[] {
  const problems = 'GRPC_TLS_CA_FILE' in shape ? grpcProblems(shape, env) : [];
  if (env.NODE_ENV !== 'production' || env.TRANSPORT_SECURITY === 'mesh') return problems;
  if ('DATABASE_URL' in shape && !isVerified(env.DATABASE_URL)) {
    problems.push(`DATABASE_URL: production needs sslmode=verify-full${OR_MESH}`);
  }
  // The gateway needs Kafka only when it sends mails.
  const isUsed = 'KAFKA_TLS' in shape && (!('SMTP_URL' in shape) || env.SMTP_URL !== undefined);
  if (isUsed && env.KAFKA_TLS !== 'true') {
    problems.push(`KAFKA_TLS: production needs true${OR_MESH}`);
  }
  if ('KAFKA_TLS' in shape && String(env.KAFKA_SASL_TOKEN_URL ?? '').startsWith('http:')) {
    problems.push(`KAFKA_SASL_TOKEN_URL: production needs https${OR_MESH}`);
  }
  if ('GRPC_TLS_CA_FILE' in shape && env.GRPC_TLS_CA_FILE === undefined) {
    problems.push(`GRPC_TLS_CA_FILE is missing: production allows gRPC over TLS only${OR_MESH}`);
  }
  return problems;
}

const OR_MESH = ', or TRANSPORT_SECURITY=mesh';

/** Returns an error text for each gRPC variable that needs another variable which is not set. */
function grpcProblems(shape: object, env: Readonly<Record<string, unknown>>): string[] {
  const { GRPC_TLS_CA_FILE: ca, GRPC_TLS_CERT_FILE: cert, GRPC_TLS_KEY_FILE: key } = env;
  const problems: string[] = [];
  if (env.TRANSPORT_SECURITY === 'mesh' && ca !== undefined) {
    problems.push(
      'GRPC_TLS_CA_FILE: not with TRANSPORT_SECURITY=mesh, whose proxies name the peers',
    );
  }
  if ((cert === undefined) !== (key === undefined)) {
    problems.push('GRPC_TLS_CERT_FILE and GRPC_TLS_KEY_FILE are set together or not at all');
  }
  if (cert !== undefined && ca === undefined) {
    problems.push('GRPC_TLS_CA_FILE is missing (needed if GRPC_TLS_CERT_FILE is set)');
  }
  const isServer = 'GRPC_TLS_CLIENT_CERTIFICATES' in shape;
  if (isServer && ca !== undefined && cert === undefined) {
    problems.push('GRPC_TLS_CERT_FILE is missing (needed if GRPC_TLS_CA_FILE is set)');
  }
  return problems;
}

/**
 * Whether the connection verifies the certificate and name of the server. The driver uses the last of several modes.
 */
function isVerified(url: unknown): boolean {
  if (typeof url !== 'string' || !URL.canParse(url)) return true;
  const modes = new URL(url).searchParams.getAll('sslmode');
  return modes.length > 0 && modes.every((mode) => mode === 'verify-full');
}
