import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { createLocalJWKSet, errors, type JSONWebKeySet, jwtVerify } from 'jose';
import { z } from 'zod';
import { Actor_Kind, type ActorSchema } from '../../../proto/gen/rms/common/v1/actor_pb.ts';
import type { identityShape, ServiceConfig, Settings } from '../process/config.ts';
import { ANY_CALLER } from '../rpc/callers.ts';
import type { GrpcTls } from '../rpc/tls.ts';
import { openTlsFiles } from './tls-files.ts';

/** How a process proves its name to others, and verifies the names of its callers. */
export interface ServiceIdentity {
  /** Returns the token that this process sends. Rejects when the token cannot be read. */
  token(): Promise<string>;
  /**
   * Returns the caller that sent a token, by its name in `callers.ts`. Returns undefined for an invalid token. Rejects
   * only when the token cannot be checked.
   */
  callerOf(token: string): Promise<string | undefined>;
  /**
   * Returns the identity of one of several parts that run in this process. A static token is sent with this name. In a
   * cluster the token of the pod has the name, and this argument has no effect.
   */
  as(name: string): ServiceIdentity;
  /** Certificates for calls in both directions. Absent when connections are plain text. */
  readonly tls?: GrpcTls;
}

/** The part of an identity that a client needs. */
export type ClientIdentity = Pick<ServiceIdentity, 'token' | 'tls'>;

/** Returns the actor of what a service does to serve a call. */
export const serviceActor = (name: string): MessageInitShape<typeof ActorSchema> => ({
  kind: Actor_Kind.SERVICE,
  id: name,
  name,
});

/** Returns the actor of work that has no caller: loops, jobs, imports. */
export const systemActor = (name: string): MessageInitShape<typeof ActorSchema> => ({
  kind: Actor_Kind.SYSTEM,
  id: name,
  name,
});

/** Returns the identity that the variables configure. `loadConfig` has checked that they fit together. */
export function identityFromConfig(config: IdentityConfig): ServiceIdentity {
  const tls = tlsFromConfig(config);
  const identity = tokensFromConfig(config);
  return tls ? withTls(identity, tls) : identity;
}

function tlsFromConfig(config: IdentityConfig): GrpcTls | undefined {
  if (config.GRPC_TLS_CA_FILE === undefined) return undefined;
  const files = openTlsFiles({
    caFile: config.GRPC_TLS_CA_FILE,
    certFile: config.GRPC_TLS_CERT_FILE,
    keyFile: config.GRPC_TLS_KEY_FILE,
  });
  return { files, requiresClientCertificate: config.GRPC_TLS_CLIENT_CERTIFICATES === 'required' };
}

/** Returns the same identity with certificates. */
export function withTls(identity: ServiceIdentity, tls: GrpcTls): ServiceIdentity {
  return { ...identity, tls, as: (name) => withTls(identity.as(name), tls) };
}

function tokensFromConfig(config: IdentityConfig): ServiceIdentity {
  if (config.SERVICE_AUTH === 'static') return staticIdentity(required(config.SERVICE_TOKEN));
  return kubernetesIdentity({
    tokenFile: required(config.SERVICE_TOKEN_FILE),
    jwksFile: required(config.SERVICE_JWKS_FILE),
    issuer: required(config.SERVICE_ISSUER),
    subjects: required(config.SERVICE_SUBJECTS),
    callers: config.SERVICE_CALLERS,
  });
}

type IdentityConfig = Settings<typeof identityShape> &
  Partial<Pick<ServiceConfig, 'GRPC_TLS_CLIENT_CERTIFICATES'>>;

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('the service identity is not fully configured');
  return value;
}

/**
 * Creates an identity with one token that all processes share. Not for production, because the token does not prove a
 * name. Our own processes send `<name>:<token>`, so that the table of callers also applies in development. A token
 * without a name may call every RPC. Tokens are compared by their hashes, in constant time.
 *
 * @param name name of this process, which `token` sends.
 */
export function staticIdentity(token: string, name?: string): ServiceIdentity {
  const expected = sha256(token);
  const isToken = (text: string) => timingSafeEqual(sha256(text), expected);
  return {
    token: () => Promise.resolve(name === undefined ? token : `${name}:${token}`),
    callerOf(text) {
      const colon = text.indexOf(':');
      const isNamed = colon > 0 && isToken(text.slice(colon + 1));
      const caller = isNamed ? text.slice(0, colon) : ANY_CALLER;
      return Promise.resolve(isNamed || isToken(text) ? caller : undefined);
    },
    as: (other) => staticIdentity(token, other),
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

export interface KubernetesIdentityOptions {
  /** File with the service-account token of this pod. The kubelet renews it in place. */
  readonly tokenFile: string;
  /** File with the public keys of the cluster, a mounted JWKS. */
  readonly jwksFile: string;
  readonly issuer: string;
  /**
   * Our service accounts, by name or with `*` at the end. This check is necessary, because every pod of the cluster can
   * get a signed token for any audience. The name of the account is the name of the caller.
   */
  readonly subjects: readonly string[];
  /** Service accounts of internal services, and for each its name in the table of callers. */
  readonly callers?: ReadonlyMap<string, string>;
  readonly audience?: string;
}

/** How long the content of the two files is cached. Both may change while the process runs. Milliseconds. */
const FILE_CACHE_MS = 10_000;

/**
 * Tolerated difference between the clocks of this node and of the cluster's API server. The token of a new pod is valid
 * from the second in which it was signed. Seconds.
 */
const CLOCK_SKEW_S = 5;

/**
 * Maximum number of verified tokens in the cache, by hash. The cache exists because checking a signature costs more
 * than most calls.
 */
const MAX_CACHED = 1_000;

const jwks = z.looseObject({ keys: z.array(z.looseObject({ kty: z.string() })) });

/**
 * Creates an identity with the service-account tokens of the cluster. They are signed, are for one audience, and expire
 * soon.
 */
export function kubernetesIdentity(o: KubernetesIdentityOptions): ServiceIdentity {
  const token = cachedFile(o.tokenFile, (text) => text.trim());
  const keys = cachedFile(o.jwksFile, (text) => {
    const parsed: JSONWebKeySet = jwks.parse(JSON.parse(text));
    return createLocalJWKSet(parsed);
  });
  const verified = new Map<string, { caller: string; until: number }>();

  const identity: ServiceIdentity = {
    token,
    as: () => identity,
    async callerOf(text) {
      const hash = sha256(text).toString('base64');
      const cached = verified.get(hash);
      if (cached && cached.until > Date.now()) return cached.caller;
      try {
        const { payload } = await jwtVerify(text, await keys(), {
          issuer: o.issuer,
          audience: o.audience ?? 'rms',
          algorithms: ['RS256', 'ES256', 'EdDSA'],
          requiredClaims: ['exp', 'sub'],
          clockTolerance: CLOCK_SKEW_S,
        });
        const caller = callerNamed(o, payload.sub ?? '');
        if (caller === undefined) return undefined;
        if (verified.size >= MAX_CACHED) verified.clear();
        // The result must not outlive the token. It also expires soon, so that this process notices new keys of the
        // cluster.
        const until = Math.min((payload.exp ?? 0) * 1_000, Date.now() + FILE_CACHE_MS);
        verified.set(hash, { caller, until });
        return caller;
      } catch (error) {
        if (error instanceof errors.JOSEError) return undefined;
        throw error;
      }
    },
  };
  return identity;
}

/**
 * Returns the caller for a service account: the one that SERVICE_CALLERS lists, or else our own process of the same
 * name.
 */
function callerNamed(
  { subjects, callers }: KubernetesIdentityOptions,
  subject: string,
): string | undefined {
  const internal = callers?.get(subject);
  if (internal !== undefined) return internal;
  return isAmong(subjects, subject) ? subject.slice(subject.lastIndexOf(':') + 1) : undefined;
}

function isAmong(subjects: readonly string[], subject: string): boolean {
  return subjects.some((one) =>
    one.endsWith('*') ? subject.startsWith(one.slice(0, -1)) : subject === one,
  );
}

function cachedFile<T>(path: string, parse: (text: string) => T): () => Promise<T> {
  let cached: { value: T; until: number } | undefined;
  return async () => {
    if (cached && cached.until > Date.now()) return cached.value;
    const value = parse(await readFile(path, 'utf8'));
    cached = { value, until: Date.now() + FILE_CACHE_MS };
    return value;
  };
}
