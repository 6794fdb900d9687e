import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';

/** A broker, which is also a controller. */
export interface KafkaNode {
  readonly id: number;
  readonly port: number;
  readonly controllerPort: number;
  readonly folder: string;
  readonly properties: string;
  readonly log: string;
}

export function nodeIn(folder: string, id: number, ports: readonly [number, number]): KafkaNode {
  const [port, controllerPort] = ports;
  const name = (suffix: string) => join(folder, `broker-${id}${suffix}`);
  return {
    id,
    port,
    controllerPort,
    folder: name(''),
    properties: name('.properties'),
    log: name('.log'),
  };
}

export type BrokerSettings = Readonly<Record<string, string | number | boolean>>;

/** Writes the settings of a small node on loopback; `others` override them. */
export async function writeSettings(
  node: KafkaNode,
  all: readonly KafkaNode[],
  others: BrokerSettings = {},
): Promise<void> {
  const replicas = Math.min(3, all.length);
  const settings = {
    'process.roles': 'broker,controller',
    'node.id': node.id,
    'controller.quorum.voters': all.map((n) => `${n.id}@127.0.0.1:${n.controllerPort}`).join(','),
    listeners: `CLIENTS://127.0.0.1:${node.port},CONTROLLER://127.0.0.1:${node.controllerPort}`,
    'advertised.listeners': `CLIENTS://127.0.0.1:${node.port}`,
    'listener.security.protocol.map': 'CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT',
    'inter.broker.listener.name': 'CLIENTS',
    'controller.listener.names': 'CONTROLLER',
    'log.dirs': node.folder,
    // There cannot be more replicas than brokers.
    'default.replication.factor': replicas,
    'min.insync.replicas': Math.max(1, replicas - 1),
    'offsets.topic.replication.factor': replicas,
    'transaction.state.log.replication.factor': replicas,
    'transaction.state.log.min.isr': Math.max(1, replicas - 1),
    'share.coordinator.state.topic.replication.factor': replicas,
    'offsets.topic.num.partitions': 4,
    'transaction.state.log.num.partitions': 4,
    'share.coordinator.state.topic.num.partitions': 4,
    // The first member of a group does not wait for others.
    'group.initial.rebalance.delay.ms': 0,
    'group.min.session.timeout.ms': 1_000,
    'auto.create.topics.enable': false,
    'num.network.threads': 2,
    'num.io.threads': 4,
    'log.cleaner.dedupe.buffer.size': 16 * 1024 * 1024,
    // A killed broker can restart only after its session has expired, so the session is short.
    'broker.heartbeat.interval.ms': 500,
    'broker.session.timeout.ms': 3_000,
    ...others,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}\n`);
  await writeFile(node.properties, lines.join(''));
}
