import { once } from 'node:events';
import { createServer, type Server } from 'node:net';

/**
 * Below the range from which kernels take the near ends of connections and ports that nobody named
 * (from 32768 on Linux, 49152 elsewhere): what is free now would otherwise be taken by the stack's
 * own connections before its last part listens, or while it is down between two runs.
 */
const FIRST = 20_000;
const LAST = 32_767;

/** Ports that one process holds together; the first is its lock. */
const BLOCK = 16;
const BLOCKS = Math.floor((LAST - FIRST + 1) / BLOCK);
const spare: number[] = [];

/**
 * TCP ports on loopback that nothing listens on. This process is given none of them again, and other
 * processes are given none of them while this one lives.
 *
 * @param taken ports that are not to be had, although nothing listens there yet.
 * @throws Error when there are none.
 */
export async function freePorts(count: number, taken: readonly number[] = []): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = spare.shift();
    if (port === undefined) spare.push(...(await holdBlock()));
    else if (!taken.includes(port) && (await isFree(port))) ports.push(port);
  }
  return ports;
}

/** One port, as {@link freePorts} gives it. */
export async function freePort(): Promise<number> {
  const [port = 0] = await freePorts(1);
  return port;
}

/**
 * The ports of a block that no other process holds. This process listens on the first port until it
 * ends: the operating system then releases the block, however the process ends.
 */
async function holdBlock(): Promise<number[]> {
  for (let tried = 0; tried < BLOCKS; tried += 1) {
    const first = FIRST + ((process.pid + tried) % BLOCKS) * BLOCK;
    const lock = await listen(first);
    if (!lock) continue;
    lock.unref();
    return Array.from({ length: BLOCK - 1 }, (_, at) => first + 1 + at);
  }
  throw new Error(`no free ports between ${FIRST} and ${LAST}`);
}

/** Whether nothing listens on a TCP port of loopback. */
export async function isFree(port: number): Promise<boolean> {
  const server = await listen(port);
  if (!server) return false;
  await new Promise((closed) => server.close(closed));
  return true;
}

/** A server on a port of loopback; `undefined` when the port is in use. */
async function listen(port: number): Promise<Server | undefined> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
    return server;
  } catch {
    return undefined;
  }
}
