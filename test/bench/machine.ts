import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { availableParallelism, cpus, totalmem } from 'node:os';
import { promisify } from 'node:util';
import { z } from 'zod';
import { findJava } from '../../deploy/local/kafka/start.ts';

const run = promisify(execFile);

/** Lines that describe the machine of the figures. */
export async function machineLines(postgresVersion: string): Promise<string[]> {
  const manifest = await readFile(new URL('../../package.json', import.meta.url), 'utf8');
  const { dependencies } = z
    .object({ dependencies: z.record(z.string(), z.string()) })
    .parse(JSON.parse(manifest));
  const version = (name: string) => `${name} ${dependencies[name]}`;
  const { stdout: kernel } = await run('uname', ['-sr']);
  const { stderr: java } = await run(await findJava(), ['-version']);
  const memory = (totalmem() / 1024 ** 3).toFixed(0);
  return [
    `${availableParallelism()} cores of ${cpus()[0]?.model.trim()}, ${memory} GiB of memory, ${kernel.trim()}; everything on this one machine`,
    `Node ${process.versions.node}, PostgreSQL ${postgresVersion} (fsync on, 256 MB shared buffers), Kafka of deploy/local/kafka (one broker, 256 MB) on Java ${/"([^"]+)"/.exec(java)?.[1]}`,
    ['express', 'undici', 'pg', 'kafkajs', '@connectrpc/connect', '@grpc/grpc-js']
      .map(version)
      .join(', '),
  ];
}
