import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { startKafka } from '../../deploy/local/kafka/start.ts';
import { startPostgres } from '../../deploy/local/postgres/start.ts';
import { connectServices, type Services } from '../../gateway/services.ts';
import {
  Health,
  HealthCheckResponse_ServingStatus,
} from '../../proto/gen/grpc/health/v1/health_pb.ts';
import { migrate } from '../../services/platform/postgres/migrate.ts';
import { roleOf, SCHEMAS } from '../../services/platform/postgres/schemas.ts';
import { createServiceClient } from '../../services/platform/rpc/client.ts';
import { staticIdentity } from '../../services/platform/security/identity.ts';
import { newKeyringText } from '../../services/platform/security/keyring.ts';
import type { ProcessName } from '../../services/platform/services.ts';
import { type Certificate, createAuthority } from '../kit/certificates.ts';
import { type NodeProcess, startNode } from '../kit/process.ts';
import { createLoadMeter, type LoadMeter } from './background-load.ts';
import { environmentsOf, placesOf } from './places.ts';

/** As in the image, see deploy/Dockerfile. */
const NODE_FLAGS = ['--max-semi-space-size=16'];

/** Longer than a gRPC client's pause before it reconnects. Milliseconds. */
const RECONNECT_MS = 1_500;
const START_MS = 60_000;

/** Settings of a small production server. */
const POSTGRES_SETTINGS = {
  shared_buffers: '256MB',
  max_wal_size: '2GB',
  shared_preload_libraries: 'pg_stat_statements',
  'pg_stat_statements.track': 'all',
  'pg_stat_statements.track_utility': 'on',
  'pg_stat_statements.track_planning': 'on',
};

/** PostgreSQL, Kafka and the services, each in a separate process. */
export interface Platform {
  readonly folder: string;
  readonly postgresPid: number;
  readonly kafkaPid: number;
  /** Connected as superuser to the database of the services. */
  readonly admin: pg.Client;
  readonly services: Services;
  readonly gatewayUrl: string;
  readonly gatewayHealthPort: number;
  /** The keyring of the keys that sign access tokens. */
  readonly oauthKeyring: string;
  /** A certificate for 127.0.0.1 that webhooks trusts. */
  readonly certificate: Certificate;
  /** Background load during the measurements. */
  readonly shares: LoadMeter;
  urlOf(schema: string): string;
  /** Starts the missing ones of these processes, and stops all others. */
  run(names: readonly ProcessName[]): Promise<void>;
  processes(): readonly NodeProcess[];
  metricsUrlOf(name: ProcessName): string;
  stop(): Promise<void>;
}

/** Starts PostgreSQL (fsync on) and Kafka with a migrated database. Services start when a row needs them. */
export async function startPlatform(): Promise<Platform> {
  const folder = await mkdtemp(join(tmpdir(), 'rms-bench-'));
  const forget = () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  process.once('exit', forget);
  const [postgres, kafka] = await Promise.all([
    startPostgres({ folder: join(folder, 'postgres'), settings: POSTGRES_SETTINGS }),
    startKafka({ folder: join(folder, 'kafka') }),
  ]);
  const password = randomBytes(16).toString('hex');
  const passwords = Object.fromEntries(SCHEMAS.map(({ name }) => [name, password]));
  await migrate({ databaseUrl: postgres.url, passwords });
  const admin = await superuser(postgres.url);
  const urlOf = (schema: string) => urlForRole(postgres.url, roleOf(schema), password);
  const places = await placesOf();
  const token = randomBytes(24).toString('hex');
  const identity = staticIdentity(token);
  const { services, close } = connectServices(places.targets, { identity });
  const brokers = kafka.brokers.join(',');
  const oauthKeyring = newKeyringText();
  const authority = createAuthority('bench');
  const authorityFile = join(folder, 'authority.pem');
  await writeFile(authorityFile, authority.cert);
  const variables = environmentsOf({ places, token, brokers, oauthKeyring, authorityFile, urlOf });
  const running = new Map<ProcessName, NodeProcess>();

  const start = async (name: ProcessName) => {
    const file = name === 'gateway' ? 'gateway/main.ts' : `services/${name}/main.ts`;
    const args = [...NODE_FLAGS, file];
    const made = startNode({ name, args, env: variables(name) });
    running.set(name, made);
    await untilServing(made, places.ports(name)[0], name);
    // A client that called while a service was stopped waits up to a second before it reconnects.
    await sleep(RECONNECT_MS);
  };
  const stop = async (name: ProcessName) => {
    await running.get(name)?.stop();
    running.delete(name);
  };
  return {
    folder,
    postgresPid: postgres.pid,
    kafkaPid: kafka.pids()[0] ?? 0,
    admin,
    services,
    gatewayUrl: `http://127.0.0.1:${places.ports('gateway')[0]}`,
    gatewayHealthPort: places.gatewayHealth,
    oauthKeyring,
    certificate: authority.issue({ address: '127.0.0.1' }),
    shares: createLoadMeter(process.pid),
    urlOf,
    processes: () => [...running.values()],
    metricsUrlOf: (name) => `http://127.0.0.1:${places.ports(name)[1]}/metrics`,
    async run(names) {
      await Promise.all([...running.keys()].filter((name) => !names.includes(name)).map(stop));
      await Promise.all(names.filter((name) => !running.has(name)).map(start));
    },
    async stop() {
      close();
      await Promise.all([...running.keys()].map(stop));
      await admin.end();
      await Promise.all([postgres.stop(), kafka.stop()]);
      forget();
      process.removeListener('exit', forget);
    },
  };
}

function urlForRole(databaseUrl: string, role: string, password: string): string {
  const url = new URL(databaseUrl);
  [url.username, url.password] = [role, password];
  return url.href;
}

/** In a local server the superuser has the migrator's password. */
async function superuser(migratorUrl: string): Promise<pg.Client> {
  const url = new URL(migratorUrl);
  url.username = 'postgres';
  const admin = new pg.Client({ connectionString: url.href, application_name: 'bench' });
  await admin.connect();
  await admin.query('create extension if not exists pg_stat_statements');
  return admin;
}

async function untilServing(made: NodeProcess, port: number, name: ProcessName): Promise<void> {
  const serves = name === 'gateway' ? gatewayServes : serviceServes;
  for (const end = performance.now() + START_MS; performance.now() < end; await sleep(50)) {
    if (made.hasExited()) throw new Error(`${name} ended:\n${made.output()}`);
    if (await serves(port).catch(() => false)) return;
  }
  throw new Error(`${name} was not ready:\n${made.output()}`);
}

async function gatewayServes(port: number): Promise<boolean> {
  return (await fetch(`http://127.0.0.1:${port}/readyz`)).ok;
}

async function serviceServes(port: number): Promise<boolean> {
  const noIdentity = { token: async () => '' };
  const target = `127.0.0.1:${port}`;
  const health = createServiceClient(Health, { target, identity: noIdentity, timeoutMs: 1_000 });
  try {
    const { status } = await health.client.check({});
    return status === HealthCheckResponse_ServingStatus.SERVING;
  } finally {
    health.close();
  }
}
