import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Client } from '@connectrpc/connect';
import type pg from 'pg';
import { freePorts } from '../../../deploy/local/free-ports.ts';
import { connectServices, type Services } from '../../../gateway/services.ts';
import {
  Health,
  HealthCheckResponse_ServingStatus as Status,
} from '../../../proto/gen/grpc/health/v1/health_pb.ts';
import { ReturnsService } from '../../../proto/gen/rms/returns/v1/returns_pb.ts';
import { migrate } from '../../../services/platform/postgres/migrate.ts';
import { createPool } from '../../../services/platform/postgres/postgres.ts';
import { createServiceClient } from '../../../services/platform/rpc/client.ts';
import {
  type ServiceIdentity,
  staticIdentity,
} from '../../../services/platform/security/identity.ts';
import { forServices } from '../../../services/platform/services.ts';
import { StopWaitingError } from '../../kit/until.ts';
import { type Sink, startSink } from '../sink/sink.ts';
import { waitFor } from '../wait.ts';
import {
  environmentOf,
  freshSecrets,
  mainOf,
  type Place,
  PORT_COUNT,
  passwordsFor,
  placesOf,
  type Secrets,
  targetOf,
} from './environment.ts';
import { type Broker, type DatabaseServer, startBroker, startDatabaseServer } from './servers.ts';
import { type ServiceProcess, serviceProcess } from './service-process.ts';

/** Time limit for a start. Eleven processes may start together on a busy machine. Milliseconds. */
const READY_MS = 240_000;
/** The services that most trials need. The others start when a trial requests them. */
const CORE: readonly Place['service'][] = ['destinations', 'returns', 'webhooks'];

/** One process of the system, with its readiness check. */
export interface Member {
  readonly place: Place;
  readonly process: ServiceProcess;
  untilReady(): Promise<void>;
}

export interface ReturnsReplica {
  readonly member: Member;
  readonly client: Client<typeof ReturnsService>;
}

/** The whole system. Each part is a separate process. */
export interface System {
  readonly folder: string;
  /** Prints a line of progress. */
  readonly say: (text: string) => void;
  readonly secrets: Secrets;
  readonly database: DatabaseServer;
  readonly broker: Broker;
  readonly sink: Sink;
  /** Connections of the migrator, who may read every schema. They fail while the server is unavailable. */
  readonly pool: pg.Pool;
  readonly baseUrl: string;
  /** Clients over all replicas, like those of the gateway. */
  readonly services: Services;
  readonly returns: readonly ReturnsReplica[];
  members(service: Place['service']): readonly Member[];
  /** Starts the gateway and the services that only it calls, unless they run. */
  startFront(): Promise<void>;
  /** Adds a process of webhooks that has not started. */
  extraWebhooks(): Promise<Member>;
  /** Adds a process of the gateway that has not started, with further settings. The first gateway is number 1. */
  extraGateway(nth: number, settings: Readonly<Record<string, string>>): Promise<Member>;
  stop(): Promise<void>;
}

/** Maximum number of starts, because a busy machine may be too slow for some. */
const MAX_STARTS = 3;

/** Starts database, broker, sink and the core services as separate processes, and waits until all are ready. */
export async function startSystem(say: (text: string) => void): Promise<System> {
  for (let start = 1; ; start += 1) {
    try {
      return await startOnce(say);
    } catch (error) {
      if (start === MAX_STARTS) throw error;
      say(
        `the system did not start, starting it again: ${error instanceof Error ? error.message : String(error)}`,
      );
    }
  }
}

async function startOnce(say: (text: string) => void): Promise<System> {
  const folder = await mkdtemp(join(tmpdir(), 'rms-faults-'));
  const stoppers: (() => Promise<unknown>)[] = [];
  const stop = async (): Promise<void> => {
    for (const each of stoppers.splice(0).reverse()) await each().catch(() => {});
    await rm(folder, { recursive: true, force: true });
  };
  try {
    say('starting PostgreSQL, Kafka and the sink');
    const starting = [
      startDatabaseServer(join(folder, 'postgres')),
      startBroker(join(folder, 'kafka')),
      startSink(),
    ] as const;
    // Also stops parts that start after another one failed.
    for (const one of starting) stoppers.push(async () => (await one).stop());
    const [database, broker, sink] = await Promise.all(starting);
    const ports = await freePorts(PORT_COUNT + 2);
    const places = placesOf(ports);
    const secrets = freshSecrets();
    await migrate({ databaseUrl: database.url(), passwords: passwordsFor(secrets) });
    const surroundings = { databaseUrl: database.url(), brokers: broker.brokers, ports };
    const identity = staticIdentity(secrets.serviceToken);
    const memberAt = (place: Place, more: Readonly<Record<string, string>> = {}): Member => {
      const started = serviceProcess({
        name: place.name,
        args: [mainOf(place)],
        env: { ...environmentOf(place, { places, surroundings, secrets }), ...more },
        logFile: join(folder, `${place.name}.log`),
      });
      stoppers.push(() => started.kill());
      return { place, process: started, untilReady: () => untilReady(place, started) };
    };
    const members = places.map((place) => memberAt(place));

    say('starting the services');
    await startMissing(members.filter(({ place }) => CORE.includes(place.service)));
    const connected = connect(members, { databaseUrl: database.url(), identity });
    stoppers.push(connected.close);
    const gateway = places.find(({ service }) => service === 'gateway');
    return {
      folder,
      say,
      secrets,
      database,
      broker,
      sink,
      pool: connected.pool,
      baseUrl: `http://127.0.0.1:${gateway?.port}`,
      services: connected.services,
      returns: connected.returns,
      members: (service) => members.filter(({ place }) => place.service === service),
      startFront: () => startMissing(members),
      ...extraMembers(memberAt, ports.slice(-2)),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The processes that rows add. */
function extraMembers(
  memberAt: (place: Place, more?: Readonly<Record<string, string>>) => Member,
  [port = 0, metricsPort = 0]: readonly number[],
): Pick<System, 'extraWebhooks' | 'extraGateway'> {
  return {
    extraWebhooks: async () =>
      memberAt({ name: 'webhooks-3', service: 'webhooks', port, metricsPort }),
    async extraGateway(nth, settings) {
      const [own = 0, ownMetrics = 0] = await freePorts(2);
      const place = { port: own, metricsPort: ownMetrics };
      return memberAt({ name: `gateway-${nth}`, service: 'gateway', ...place }, settings);
    },
  };
}

/** Clients of all services, clients of each replica of returns, and connections of the migrator. */
function connect(
  members: readonly Member[],
  o: { readonly databaseUrl: string; readonly identity: ServiceIdentity },
) {
  const places = members.map(({ place }) => place);
  const targets = forServices((name) => targetOf(places, name));
  const { services, close } = connectServices(targets, { identity: o.identity });
  const pool = createPool(o.databaseUrl, { max: 4, applicationName: 'faults' });
  const replicas = members
    .filter(({ place }) => place.service === 'returns')
    .map((member) => {
      const target = `127.0.0.1:${member.place.port}`;
      return { member, ...createServiceClient(ReturnsService, { target, identity: o.identity }) };
    });
  return {
    services,
    pool,
    returns: replicas.map(({ member, client }) => ({ member, client })),
    async close(): Promise<void> {
      for (const replica of replicas) replica.close();
      close();
      await pool.end();
    },
  };
}

async function startMissing(members: readonly Member[]): Promise<void> {
  const missing = members.filter((one) => !one.process.isRunning());
  for (const one of missing) one.process.start();
  await Promise.all(missing.map((one) => one.untilReady()));
}

/** Checks the readiness like a kubelet. */
async function untilReady(place: Place, running: ServiceProcess): Promise<void> {
  const what = `${place.name} serves, see ${running.logFile}`;
  if (place.service === 'gateway') {
    const url = `http://127.0.0.1:${place.port}/readyz`;
    await waitFor(async () => (await fetch(url)).status === 200, { what, withinMs: READY_MS });
    return;
  }
  const target = `127.0.0.1:${place.port}`;
  const noIdentity = { token: async () => '' };
  const { client, close } = createServiceClient(Health, {
    target,
    identity: noIdentity,
    timeoutMs: 1_000,
  });
  try {
    const serves = async (): Promise<boolean> => {
      if (!running.isRunning()) throw new StopWaitingError(await endOfLog(running));
      return (await client.check({})).status === Status.SERVING;
    };
    await waitFor(serves, { what, withinMs: READY_MS });
  } finally {
    close();
  }
}

const LOG_TAIL = 2_000;

async function endOfLog({ name, logFile }: ServiceProcess): Promise<string> {
  const log = await readFile(logFile, 'utf8').catch(() => '');
  return `${name} ended:\n${log.slice(-LOG_TAIL)}`;
}
