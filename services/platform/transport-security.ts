import { z } from 'zod';

/** Whether a service mesh encrypts the connections instead of the process. */
export const transportShape = {
  TRANSPORT_SECURITY: z
    .enum(['tls', 'mesh'], { error: 'wants tls or mesh' })
    .default('tls')
    .describe(
      'Who encrypts connections in production: tls, the processes themselves (a database without sslmode=verify-full, plain Kafka and plain gRPC are refused), or mesh, which says that a service mesh does it',
    ),
};

/** Variables of a process that production does not allow, unless a mesh encrypts. */
export function transportFaults(shape: object, env: Readonly<Record<string, unknown>>): string[] {
  const faults = 'GRPC_TLS_CA_FILE' in shape ? grpcFaults(shape, env) : [];
  if (env.NODE_ENV !== 'production' || env.TRANSPORT_SECURITY === 'mesh') return faults;
  if ('DATABASE_URL' in shape && !isVerified(env.DATABASE_URL)) {
    faults.push(`DATABASE_URL: production wants sslmode=verify-full${OR_MESH}`);
  }
  if ('KAFKA_TLS' in shape && env.KAFKA_TLS !== 'true') {
    faults.push(`KAFKA_TLS: production wants true${OR_MESH}`);
  }
  if ('KAFKA_TLS' in shape && String(env.KAFKA_SASL_TOKEN_URL ?? '').startsWith('http:')) {
    faults.push(`KAFKA_SASL_TOKEN_URL: production wants https${OR_MESH}`);
  }
  if ('GRPC_TLS_CA_FILE' in shape && env.GRPC_TLS_CA_FILE === undefined) {
    faults.push(`GRPC_TLS_CA_FILE is missing: production takes gRPC over TLS only${OR_MESH}`);
  }
  return faults;
}

const OR_MESH = ', or TRANSPORT_SECURITY=mesh';

/** A server needs a certificate when TLS is on, and a certificate needs its key. */
function grpcFaults(shape: object, env: Readonly<Record<string, unknown>>): string[] {
  const { GRPC_TLS_CA_FILE: ca, GRPC_TLS_CERT_FILE: cert, GRPC_TLS_KEY_FILE: key } = env;
  const faults: string[] = [];
  if ((cert === undefined) !== (key === undefined)) {
    faults.push('GRPC_TLS_CERT_FILE and GRPC_TLS_KEY_FILE are set together or not at all');
  }
  if (cert !== undefined && ca === undefined) {
    faults.push('GRPC_TLS_CA_FILE is missing (needed where GRPC_TLS_CERT_FILE is set)');
  }
  const isServer = 'GRPC_TLS_CLIENT_CERTIFICATES' in shape;
  if (isServer && ca !== undefined && cert === undefined) {
    faults.push('GRPC_TLS_CERT_FILE is missing (needed where GRPC_TLS_CA_FILE is set)');
  }
  return faults;
}

/** Whether the connection verifies the server's certificate and name. Of several modes the driver uses the last. */
function isVerified(url: unknown): boolean {
  if (typeof url !== 'string' || !URL.canParse(url)) return true;
  const modes = new URL(url).searchParams.getAll('sslmode');
  return modes.length > 0 && modes.every((mode) => mode === 'verify-full');
}
