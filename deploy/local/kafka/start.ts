import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { closeSync, existsSync, openSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { endChild } from '../end-process.ts';
import { freePort } from '../free-ports.ts';
import { findJava, kafkaJars, type Progress } from './jars.ts';
import { type BrokerSettings, type KafkaNode, nodeIn, writeSettings } from './node-config.ts';

const run = promisify(execFile);

/** Any base64url UUID; it is fixed, so that stored data is valid for a later start. */
const CLUSTER_ID = 'cm1zLWxvY2FsLWthZmthMA';
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 15_000;

export interface LocalKafkaOptions {
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
  /** Additional arguments for Java. */
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
  const jvm = [...(o.javaArguments ?? []), ...jvmArguments(jars)];
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
