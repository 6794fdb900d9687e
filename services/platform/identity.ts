import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { createLocalJWKSet, errors, type JSONWebKeySet, jwtVerify } from 'jose';
import { z } from 'zod';
import { Actor_Kind, type ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { identityShape, ServiceConfig, Settings } from './config.ts';
import { ANY_CALLER } from './grpc/callers.ts';
import type { GrpcTls } from './grpc/tls.ts';
import { openTlsFiles } from './tls-files.ts';

/** How a process proves who it is, and how it verifies its callers. */
export interface ServiceIdentity {
  /** The token to send. Rejects when it cannot be read. */
  token(): Promise<string>;
  /**
   * The name in `callers.ts` of the caller that a token belongs to; undefined for an invalid token. Rejects only when
   * the token cannot be checked.
   */
  callerOf(token: string): Promise<string | undefined>;
  /**
   * The identity of one of several parts in one process. Only a static token carries the name. In a cluster the token
   * of the pod does.
   */
  as(name: string): ServiceIdentity;
  /** Certificates for calls in both directions; plain text without. */
  readonly tls?: GrpcTls;
}

/** The part of an identity that a client needs. */
export type ClientIdentity = Pick<ServiceIdentity, 'token' | 'tls'>;

/** The actor of actions that a service takes to answer a call. */
export const serviceActor = (name: string): MessageInitShape<typeof ActorSchema> => ({
  kind: Actor_Kind.SERVICE,
  id: name,
  name,
});

/** The actor of work without a caller: sweepers, jobs, imports. */
export const systemActor = (name: string): MessageInitShape<typeof ActorSchema> => ({
  kind: Actor_Kind.SYSTEM,
  id: name,
  name,
});

/** The identity that the variables configure. `loadConfig` has checked that they fit together. */
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

/** The identity with certificates. */
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
 * One token shared by all processes, outside of production only, because it proves no name. Our own processes send
 * `<name>:<token>`, so that the table of callers applies in development too. A token without a name may call every RPC.
 * Compared in constant time, by hash.
 *
 * @param name the caller, for `token`.
 */
export function staticIdentity(token: string, name?: string): ServiceIdentity {
  const expected = sha256(token);
  const isToken = (given: string) => timingSafeEqual(sha256(given), expected);
  return {
    token: () => Promise.resolve(name === undefined ? token : `${name}:${token}`),
    callerOf(given) {
      const at = given.indexOf(':');
      const isNamed = at > 0 && isToken(given.slice(at + 1));
      const caller = isNamed ? given.slice(0, at) : ANY_CALLER;
      return Promise.resolve(isNamed || isToken(given) ? caller : undefined);
    },
    as: (other) => staticIdentity(token, other),
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

export interface KubernetesIdentityOptions {
  /** The projected service-account token of this pod; the kubelet renews it in place. */
  readonly tokenFile: string;
  /** The cluster's public keys, as a mounted JWKS. */
  readonly jwksFile: string;
  readonly issuer: string;
  /**
   * Our service accounts, by name or with `*` at the end. The check is necessary because every pod of the cluster can
   * get a token signed for any audience. The name of the account is the name of the caller.
   */
  readonly subjects: readonly string[];
  /** Service accounts of internal services, with the caller of the table that each stands for. */
  readonly callers?: ReadonlyMap<string, string>;
  readonly audience?: string;
}

/** Both files change while the process runs. Milliseconds. */
const FILE_CACHE_MS = 10_000;

/** Number of verified tokens cached by hash, because checking a signature costs more than most calls. */
const MAX_REMEMBERED = 1_000;

const jwks = z.looseObject({ keys: z.array(z.looseObject({ kty: z.string() })) });

/** Service-account tokens of the cluster: signed, for one audience, short-lived. */
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
    async callerOf(given) {
      const hash = sha256(given).toString('base64');
      const known = verified.get(hash);
      if (known && known.until > Date.now()) return known.caller;
      try {
        const { payload } = await jwtVerify(given, await keys(), {
          issuer: o.issuer,
          audience: o.audience ?? 'rms',
          algorithms: ['RS256', 'ES256', 'EdDSA'],
          requiredClaims: ['exp', 'sub'],
        });
        const caller = callerNamed(o, payload.sub ?? '');
        if (caller === undefined) return undefined;
        if (verified.size >= MAX_REMEMBERED) verified.clear();
        // Not beyond the token's expiry, and not long after a change of the cluster's keys.
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

/** The caller of a service account: as SERVICE_CALLERS says, otherwise one of our own by the same name. */
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
