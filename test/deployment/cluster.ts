import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Container,
  dataIn,
  environmentOf,
  type Workload,
  workloadsIn,
} from '../../deploy/check/problems.ts';
import { renderOverlay } from '../../deploy/check/render.ts';
import { freePorts } from '../../deploy/local/free-ports.ts';
import { startKafka } from '../../deploy/local/kafka/start.ts';
import { startPostgres } from '../../deploy/local/postgres/start.ts';
import { type NodeProcess, runToSuccess, startNode } from '../kit/process.ts';

/** The processes of an overlay on this machine, with the addresses of a cluster. */
export interface Cluster {
  /** Processes by name of the workload. */
  readonly processes: ReadonlyMap<string, NodeProcess>;
  /** Maps an in-cluster address such as `returns:8080` to a loopback `host:port`. */
  addressOf(name: string): string;
  /** The environment with which a workload was started. */
  envOf(name: string): Readonly<Record<string, string>>;
  /** Stops all running processes. */
  stop(): Promise<void>;
}

/**
 * Runs an overlay without Kubernetes: a PostgreSQL that checks passwords, a Kafka broker, the migration job, then every
 * Deployment as a separate process with the command and the variables of its manifest. Only in-cluster addresses and
 * ports are replaced by loopback ones.
 *
 * @param extra additional variables, by workload.
 */
export async function startCluster(
  overlay: string,
  extra: Readonly<Record<string, Readonly<Record<string, string>>>>,
): Promise<Cluster> {
  const objects = renderOverlay(overlay);
  const data = dataIn(objects);
  const workloads = workloadsIn(objects).filter(({ main }) => main.image.startsWith('rms'));
  const folder = await mkdtemp(join(tmpdir(), 'rms-deploy-'));
  const [postgres, kafka] = await Promise.all([
    startPostgres({ folder: join(folder, 'postgres') }),
    startKafka({ folder: join(folder, 'kafka') }),
  ]);
  const processes = new Map<string, NodeProcess>();
  const stop = async () => {
    await Promise.all([...processes.values()].map((one) => one.kill()));
    await Promise.all([postgres.stop(), kafka.stop()]);
    await rm(folder, { recursive: true, force: true });
  };

  try {
    const places = await placesOf(workloads, { postgres: postgres.port, kafka: kafka.brokers });
    const envOf = (one: Workload) => ({
      ...loopback(one.name, environmentOf(one.main, data), places),
      ...extra[one.name],
    });
    const named = (name: string): Workload => {
      const found = workloads.find(({ labels }) => labels.app === name);
      if (!found) throw new Error(`the overlay has no workload ${name}`);
      return found;
    };
    const migrate = workloads
      .flatMap((one) => one.containers)
      .find(({ name }) => name === 'migrate');
    if (!migrate) throw new Error('the overlay does not migrate');
    // The server sets the superuser's password. The migrations set those of the roles.
    const env = { ...environmentOf(migrate, data), DATABASE_URL: postgres.url };
    await runToSuccess({ args: argumentsOf(migrate), env });
    // Without the edge, which is no program of ours (test/security/edge.security.test.ts).
    const ours = workloads.filter(({ kind, name }) => kind === 'Deployment' && name !== 'edge');
    for (const one of ours) {
      const { name } = one;
      processes.set(name, startNode({ name, args: argumentsOf(one.main), env: envOf(one) }));
    }
    return {
      processes,
      addressOf: (name) => places.addresses.get(name) ?? name,
      envOf: (name) => envOf(named(name)),
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The arguments without `node`, because the tests use their own node. */
function argumentsOf({ name, command }: Container): readonly string[] {
  const [program, ...args] = command;
  if (program !== 'node') throw new Error(`${name} runs ${program}, not node`);
  return args;
}

interface Places {
  /** Maps an in-cluster `host:port` to the loopback one. */
  readonly addresses: ReadonlyMap<string, string>;
  readonly ports: ReadonlyMap<string, readonly [main: number, metrics: number, health: number]>;
}

async function placesOf(
  workloads: readonly Workload[],
  shared: { readonly postgres: number; readonly kafka: readonly string[] },
): Promise<Places> {
  const free = await freePorts(3 * workloads.length);
  const ports = new Map(
    workloads.map(({ name }) => {
      const [main = 0, metrics = 0, health = 0] = free.splice(0, 3);
      return [name, [main, metrics, health] as const];
    }),
  );
  const addresses = new Map([
    ['postgres:5432', `127.0.0.1:${shared.postgres}`],
    ['kafka:9092', shared.kafka.join(',')],
    ['localhost:8080', `127.0.0.1:${ports.get('gateway')?.[0]}`],
    // The demo uses the port for its identity provider that other processes use for liveness.
    ['receiver:8080', `127.0.0.1:${ports.get('demo')?.[0]}`],
    ['localhost:8090', `127.0.0.1:${ports.get('demo')?.[2]}`],
    // The demo has no metrics.
    ['mail:2525', `127.0.0.1:${ports.get('demo')?.[1]}`],
    ...[...ports].map(([name, [main]]) => [`${name}:8080`, `127.0.0.1:${main}`] as const),
  ]);
  return { addresses, ports };
}

function loopback(
  name: string,
  env: Readonly<Record<string, string>>,
  { addresses, ports }: Places,
): Record<string, string> {
  const replaced = Object.entries(env).map(([variable, value]) => [
    variable,
    value.replaceAll(/\b[a-z]+:\d+\b/g, (address) => addresses.get(address) ?? address),
  ]);
  const [main, metrics, health] = ports.get(name) ?? [];
  const own = {
    HOST: '127.0.0.1',
    PORT: `${main}`,
    METRICS_PORT: `${metrics}`,
    HEALTH_PORT: `${health}`,
    IDENTITY_PORT: `${health}`,
    MAIL_PORT: `${metrics}`,
  };
  return { ...Object.fromEntries(replaced), ...own };
}
