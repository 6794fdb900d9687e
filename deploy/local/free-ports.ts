import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/**
 * The range is below the ephemeral ports of the kernel (from 32768 on Linux, 49152 elsewhere). The stack's own outgoing
 * connections could otherwise take a port before its last part listens, or between two runs.
 */
const FIRST = 20_000;
const LAST = 32_767;

/** Number of ports that one process reserves together. The first port is the lock; its number is a multiple of this. */
export const BLOCK = 16;
const BLOCKS = Math.floor((LAST - FIRST + 1) / BLOCK);
const spare: number[] = [];

/**
 * Reserves TCP ports on loopback that are not in use. They are not returned again in this process, and not in other
 * processes as long as this one runs.
 *
 * @param taken ports to skip, although they are not in use yet.
 * @throws Error when no ports are free.
 */
export async function freePorts(count: number, taken: readonly number[] = []): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = spare.shift();
    if (port === undefined) spare.push(...(await reserveBlock()));
    else if (!taken.includes(port) && (await isFree(port))) ports.push(port);
  }
  return ports;
}

/** Reserves one port, see {@link freePorts}. */
export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}

/**
 * Reserves a block of ports that no other process has. This process listens on the first port until it exits. Then the
 * operating system releases the port, and with it the block.
 */
async function reserveBlock(): Promise<number[]> {
  for (let tried = 0; tried < BLOCKS; tried += 1) {
    const first = FIRST + ((process.pid + tried) % BLOCKS) * BLOCK;
    const lock = await listen(first);
    if (!lock) continue;
    lock.unref();
    return Array.from({ length: BLOCK - 1 }, (_, at) => first + 1 + at);
  }
  throw new Error(`no free ports between ${FIRST} and ${LAST}`);
}

/** Whether a TCP port on loopback is not in use. */
export async function isFree(port: number): Promise<boolean> {
  const server = await listen(port);
  if (!server) return false;
  await new Promise((closed) => server.close(closed));
  return true;
}

/** Listens on a port of loopback; `undefined` when the port is in use. */
async function listen(port: number): Promise<Server | undefined> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
    return server;
  } catch {
    return undefined;
  }
}
