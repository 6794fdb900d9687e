import { pathToFileURL } from 'node:url';
import { Kafka, logLevel } from 'kafkajs';
import { kafkaSecurityShape } from '../kafka/config.ts';
import { securityFromConfig, securitySettings } from '../kafka/security.ts';
import { topicDefinition } from '../kafka/topics.ts';
import { SCHEMAS } from '../postgres/schemas.ts';
import { busShape, loadConfig, processShape } from '../process/config.ts';
import { runCommand } from '../process/run-command.ts';
import { transportShape } from '../security/transport-security.ts';
import { eventsTopic } from './event-bus.ts';

const { KAFKA_BROKERS, RETENTION_DAYS } = busShape;

/** The topics of all services that publish. */
const TOPICS = SCHEMAS.filter(({ capabilities }) => capabilities.includes('outbox')).map(
  ({ name }) => eventsTopic(name),
);

/**
 * Prints the topics that the services need, one in each line. With `--create` it creates missing topics. This is for
 * clusters in which services may not create topics (`KAFKA_TOPICS=check`): there a Job with its own account runs this
 * command.
 */
async function main(args: readonly string[], env: NodeJS.ProcessEnv): Promise<string> {
  const creates = args.includes('--create');
  if (args.some((arg) => arg !== '--create')) throw new Error('usage: topics.ts [--create]');
  const days = loadConfig({ RETENTION_DAYS }, env).RETENTION_DAYS;
  const topics = TOPICS.map((topic) => topicDefinition(topic, days));
  const lines = topics.map(({ topic, numPartitions, configEntries = [] }) => {
    const settings = configEntries.map(({ name, value }) => ` ${name}=${value}`).join('');
    return `${topic} partitions=${numPartitions}${settings}`;
  });
  if (!creates) return lines.join('\n');

  const { NODE_ENV } = processShape;
  const shape = { ...kafkaSecurityShape, ...transportShape, NODE_ENV, KAFKA_BROKERS };
  const config = loadConfig(shape, env);
  const kafka = new Kafka({
    clientId: 'topics',
    ...securitySettings(securityFromConfig(config)),
    brokers: [...config.KAFKA_BROKERS],
    logLevel: logLevel.NOTHING,
  });
  const admin = kafka.admin();
  await admin.connect();
  try {
    const existing = await admin.listTopics();
    const missing = topics.filter(({ topic }) => !existing.includes(topic));
    await admin.createTopics({ topics: missing, waitForLeaders: true });
    return `${missing.length} topic(s) created, ${topics.length - missing.length} existed`;
  } finally {
    await admin.disconnect();
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await runCommand('topics', () => main(process.argv.slice(2), process.env));
}
