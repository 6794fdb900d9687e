import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type pg from 'pg';
import { z } from 'zod';
import { CommerceService } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { Actor_Kind } from '../../proto/gen/rms/common/v1/actor_pb.ts';
import { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { WebhooksService } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { createPool } from '../../services/platform/postgres/postgres.ts';
import {
  grpcTarget,
  httpUrl,
  identityShape,
  loadConfig,
  postgresUrl,
} from '../../services/platform/process/config.ts';
import { createServiceClient } from '../../services/platform/rpc/client.ts';
import {
  type ClientIdentity,
  identityFromConfig,
  type ServiceIdentity,
  staticIdentity,
} from '../../services/platform/security/identity.ts';
import type { Services, ServiceTargets } from '../services.ts';
import type { Author } from '../tenancy/audit.ts';
import { EFFECTIVE_AFTER_MS } from '../tenancy/environment.ts';
import { unreadable } from './import/source.ts';

/** The services that commands call. A command that needs another one adds it here and to `servicesShape`. */
type AdminServices = Pick<Services, 'returns' | 'commerce' | 'destinations' | 'webhooks'>;
type AdminTargets = Pick<ServiceTargets, 'returns' | 'destinations' | 'webhooks'>;

/** The database, the services and the author that admin commands use. */
export interface AdminContext {
  readonly pool: pg.Pool;
  /** Connects on first access, which throws when the environment has no addresses of the services. */
  readonly services: AdminServices;
  /** The public address of the gateway, without a trailing slash. Throws like `services`. */
  readonly publicUrl: string;
  readonly by: Author;
  /** `EFFECTIVE_AFTER_MS`; tests do not wait. */
  readonly effectiveAfterMs: number;
  close(): Promise<void>;
}

/** The stack file of the running local stack. */
const STACK_FILE = fileURLToPath(new URL('../../.local/stack.json', import.meta.url));

const databaseShape = {
  DATABASE_URL: postgresUrl.describe("The gateway's schema, logged in as its role"),
};
const publicShape = { PUBLIC_BASE_URL: httpUrl };
const servicesShape = {
  RETURNS_TARGET: grpcTarget,
  DESTINATIONS_TARGET: grpcTarget,
  WEBHOOKS_TARGET: grpcTarget,
  ...identityShape,
};

const stackShape = z.object({
  base_url: httpUrl,
  database_url: postgresUrl,
  grpc: z.object({
    returns: grpcTarget,
    destinations: grpcTarget,
    webhooks: grpcTarget,
    token: z.string(),
  }),
});

/**
 * Finds the addresses of database and services, and the service token. They come from `stackFile`, else from the
 * environment, if it has a database, else from the stack file of the running local stack.
 *
 * @param stackFile selects one of several local stacks.
 * @throws Error that says what to set or to start; ConfigError for an invalid environment.
 */
export async function openAdminContext(
  env: NodeJS.ProcessEnv,
  stackFile?: string,
): Promise<AdminContext> {
  if (stackFile === undefined && env.DATABASE_URL) return fromEnvironment(env);
  return fromStack(await readStack(stackFile ?? STACK_FILE));
}

function fromEnvironment(env: NodeJS.ProcessEnv): AdminContext {
  const { DATABASE_URL: databaseUrl } = loadConfig(databaseShape, env);
  const publicUrl = () => loadConfig(publicShape, env).PUBLIC_BASE_URL;
  return open(databaseUrl, publicUrl, () => {
    const config = loadConfig(servicesShape, env);
    return {
      identity: identityFromConfig(config),
      targets: {
        returns: config.RETURNS_TARGET,
        destinations: config.DESTINATIONS_TARGET,
        webhooks: config.WEBHOOKS_TARGET,
      },
    };
  });
}

function fromStack(stack: z.infer<typeof stackShape>): AdminContext {
  const { token, ...targets } = stack.grpc;
  const publicUrl = () => stack.base_url;
  return open(stack.database_url, publicUrl, () => ({ identity: staticIdentity(token), targets }));
}

async function readStack(path: string): Promise<z.infer<typeof stackShape>> {
  const text = await readFile(path, 'utf8').catch((cause) => {
    const why = unreadable(path, cause).message;
    const hint = 'run `npm start` in another terminal, or set DATABASE_URL and the service targets';
    throw new Error(`there is no running local stack (${why}): ${hint}`, { cause });
  });
  try {
    return stackShape.parse(JSON.parse(text));
  } catch (cause) {
    throw new Error(`${path} is not the file of a local stack: select another file with --stack`, {
      cause,
    });
  }
}

/** @param addresses returns the addresses of the services; called only by commands that need a service. */
function open(
  databaseUrl: string,
  publicUrl: () => string,
  addresses: () => { readonly identity: ServiceIdentity; readonly targets: AdminTargets },
): AdminContext {
  // The stack file has the database URL of the migrator. All commands use the gateway's schema.
  const url = new URL(databaseUrl);
  url.searchParams.set('options', '-c search_path=gateway');
  // Two: `shop sandbox` holds a lock on one and writes on the other.
  const pool = createPool(url.href, { max: 2, applicationName: 'admin' });
  let backend: ReturnType<typeof connectAdminServices> | undefined;
  const connect = () => {
    const { targets, identity } = addresses();
    return connectAdminServices(targets, identity.as('gateway'));
  };
  return {
    pool,
    get services() {
      backend ??= connect();
      return backend.services;
    },
    get publicUrl() {
      return publicUrl();
    },
    by: {
      actor: { kind: Actor_Kind.SYSTEM, id: 'admin', name: 'Operator' },
      source: 'npm run admin',
    },
    effectiveAfterMs: EFFECTIVE_AFTER_MS,
    async close() {
      backend?.close();
      await pool.end();
    },
  };
}

function connectAdminServices(
  targets: AdminTargets,
  identity: ClientIdentity,
): { readonly services: AdminServices; close(): void } {
  const returns = createServiceClient(ReturnsService, { target: targets.returns, identity });
  const commerce = createServiceClient(CommerceService, { target: targets.returns, identity });
  const destinations = createServiceClient(DestinationsService, {
    target: targets.destinations,
    identity,
  });
  const webhooks = createServiceClient(WebhooksService, { target: targets.webhooks, identity });
  return {
    services: {
      returns: returns.client,
      commerce: commerce.client,
      destinations: destinations.client,
      webhooks: webhooks.client,
    },
    close() {
      for (const client of [returns, commerce, destinations, webhooks]) client.close();
    },
  };
}

/** Opens the context of a command, runs the command, and closes the context. */
export type Open = (
  work: (context: AdminContext) => Promise<void>,
  stackFile?: string,
) => Promise<void>;
/** Does the same as {@link Open}, for the system that the options select. */
export type Run = (work: (context: AdminContext) => Promise<void>) => Promise<void>;
export type Print = (line: string) => void;
