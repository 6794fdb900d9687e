import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { createLocalJWKSet, errors, type JSONWebKeySet, jwtVerify } from 'jose';
import { z } from 'zod';
import { Actor_Kind, type ActorSchema } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import type { identityShape } from './config.ts';

/** How a process proves to the others that it is one of ours, and how it judges them. */
export interface ServiceIdentity {
  /** The token to send. Rejects when it cannot be read. */
  token(): Promise<string>;
  /** Whether a received token is one of ours. Rejects only when it cannot be judged. */
  verify(token: string): Promise<boolean>;
}

/** The actor of work that nobody asked for: sweepers, jobs, imports. */
export const systemActor = (name: string): MessageInitShape<typeof ActorSchema> => ({
  kind: Actor_Kind.SYSTEM,
  id: name,
  name,
});

/** The identity that the variables ask for; `loadConfig` has checked that they fit together. */
export function identityFromConfig(config: IdentityConfig): ServiceIdentity {
  if (config.SERVICE_AUTH === 'static') return staticIdentity(required(config.SERVICE_TOKEN));
  return kubernetesIdentity({
    tokenFile: required(config.SERVICE_TOKEN_FILE),
    jwksFile: required(config.SERVICE_JWKS_FILE),
    issuer: required(config.SERVICE_ISSUER),
    subjects: required(config.SERVICE_SUBJECTS),
  });
}

type IdentityConfig = z.infer<z.ZodObject<typeof identityShape>>;

function required<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('the service identity is not fully configured');
  return value;
}

/** One token shared by all; outside production only. Compared in constant time, by hash. */
export function staticIdentity(token: string): ServiceIdentity {
  const expected = sha256(token);
  return {
    token: () => Promise.resolve(token),
    verify: (given) => Promise.resolve(timingSafeEqual(sha256(given), expected)),
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
   * Service accounts that are ours, by name or with `*` at the end: every pod of the cluster can have a
   * token signed for any audience.
   */
  readonly subjects: readonly string[];
  readonly audience?: string;
}

/** Both files change while the process runs. Milliseconds. */
const FILE_CACHE_MS = 10_000;

/** Verified tokens remembered by hash: a signature costs more than the call it protects. */
const MAX_REMEMBERED = 1_000;

const jwks = z.looseObject({ keys: z.array(z.looseObject({ kty: z.string() })) });

/** Service-account tokens of the cluster: signed, for one audience, short-lived. */
export function kubernetesIdentity(o: KubernetesIdentityOptions): ServiceIdentity {
  const token = cachedFile(o.tokenFile, (text) => text.trim());
  const keys = cachedFile(o.jwksFile, (text) => {
    const parsed: JSONWebKeySet = jwks.parse(JSON.parse(text));
    return createLocalJWKSet(parsed);
  });
  const verified = new Map<string, number>();

  return {
    token,
    async verify(given) {
      const hash = sha256(given).toString('base64');
      const until = verified.get(hash);
      if (until !== undefined && until > Date.now()) return true;
      try {
        const { payload } = await jwtVerify(given, await keys(), {
          issuer: o.issuer,
          audience: o.audience ?? 'rms',
          algorithms: ['RS256', 'ES256', 'EdDSA'],
          requiredClaims: ['exp', 'sub'],
        });
        if (!isAmong(o.subjects, payload.sub ?? '')) return false;
        if (verified.size >= MAX_REMEMBERED) verified.clear();
        // Not past its end, and not past a change of the cluster's keys by much.
        verified.set(hash, Math.min((payload.exp ?? 0) * 1_000, Date.now() + FILE_CACHE_MS));
        return true;
      } catch (error) {
        if (error instanceof errors.JOSEError) return false;
        throw error;
      }
    },
  };
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
