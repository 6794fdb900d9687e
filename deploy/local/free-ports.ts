import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below the range from which kernels take the near ends of connections and ports that nobody named
 * (from 32768 on Linux, 49152 elsewhere): what is free now would otherwise be taken by the stack's
 * own connections before its last part listens, or while it is down between two runs.
 */
const FIRST = 20_000;
const LAST = 32_767;

/**
 * Neighbouring TCP ports on loopback that nothing listens on. Processes that ask at the same time
 * begin to look in different places; one process should ask once.
 *
 * @param taken ports that are not to be had, although nothing listens there yet.
 * @throws Error when there are none.
 */
export async function freePorts(count: number, taken: readonly number[] = []): Promise<number[]> {
  const blocks = Math.floor((LAST - FIRST + 1) / count);
  for (let tried = 0; tried < blocks; tried += 1) {
    const first = FIRST + ((process.pid + tried) % blocks) * count;
    const ports = Array.from({ length: count }, (_, at) => first + at);
    if (ports.some((port) => taken.includes(port))) continue;
    const free = await Promise.all(ports.map(isFree));
    if (free.every(Boolean)) return ports;
  }
  throw new Error(`no ${count} free ports between ${FIRST} and ${LAST}`);
}

/** Whether nothing listens on a TCP port of loopback. */
export async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening');
  } catch {
    return false;
  }
  await new Promise((closed) => server.close(closed));
  return true;
}
