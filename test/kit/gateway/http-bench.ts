import type { RequestListener } from 'node:http';
import { connect, type Socket } from 'node:net';
import type { EndReason } from '../../../gateway/http/server.ts';
import {
  type HttpLimits,
  type RunningHttpServer,
  startHttpServer,
} from '../../../gateway/http/server.ts';

/** The fields that every request needs. */
export const HEAD = 'host: x\r\n';

export interface Client {
  readonly socket: Socket;
  received(): string;
  /** Whether the server has closed its side, or reset the connection. */
  isOver(): boolean;
}

/** What {@link closeAll} calls: clients first, then servers. */
let cleanups: (() => unknown)[] = [];

/** Runs at the next {@link closeAll}, before the servers stop. */
export function beforeStop(cleanup: () => unknown): void {
  cleanups.unshift(cleanup);
}

/** Closes the clients and stops the servers of a test. */
export async function closeAll(): Promise<void> {
  for (const cleanup of cleanups) await cleanup();
  cleanups = [];
}

/** A server that counts its connections, and clients that never close their side. */
export async function serve(listener: RequestListener, limits: Partial<HttpLimits> = {}) {
  const open = { now: 0 };
  const ended: EndReason[] = [];
  const counts = {
    opened: () => {
      open.now += 1;
    },
    closed: () => {
      open.now -= 1;
    },
    ended: (reason: EndReason) => void ended.push(reason),
  };
  const quick = { checkMs: 20, rejectedMs: 50, ...limits };
  const server: RunningHttpServer = await startHttpServer(listener, {
    host: '127.0.0.1',
    port: 0,
    limits: quick,
    counts,
  });
  cleanups.push(() => server.stop());
  const client = async (bytes = '', reads = true): Promise<Client> => {
    const socket = connect({ port: server.port, host: '127.0.0.1', allowHalfOpen: true });
    beforeStop(() => socket.destroy());
    let received = '';
    let isOver = false;
    const over = (): void => {
      isOver = true;
    };
    socket.on('error', over).on('end', over).on('close', over);
    if (reads) {
      socket.on('data', (chunk) => {
        received += chunk;
      });
    }
    await new Promise((resolve) => socket.once('connect', resolve));
    socket.write(bytes);
    return { socket, received: () => received, isOver: () => isOver };
  };
  return { server, client, ended, open: () => open.now };
}
