import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';

const BODY_BYTES = 32 * 1024 * 1024;
const ITEM = '{"line_item_id":21,"disposition_note":"x"}';
/** A character above U+00FF. With it V8 stores every character of the text in two bytes. */
const WIDE_BYTES = 3;

/** Bodies that are small when sent, and as large as allowed in memory: 32 MiB of JSON, in one-byte and two-byte text. */
const INFLATING = [
  gzipSync(`{"items":[${ITEM}]}`.padEnd(BODY_BYTES, ' ')),
  gzipSync(`{"€":"${'y'.repeat(BODY_BYTES - WIDE_BYTES - ITEM.length - 18)}","items":[${ITEM}]}`),
  gzipSync(`{"items":[${ITEM}],"more":[${new Array(49_000).fill('{}')}]}`.padEnd(BODY_BYTES, ' ')),
] as const;

export interface Target {
  readonly port: number;
}

export interface AttackResponse {
  readonly status: number;
  readonly ms: number;
  readonly retryAfter: string | undefined;
}

const agent = new Agent({ keepAlive: true });

interface RequestInput {
  readonly key: string;
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
}

/**
 * Sends one request. Status 0 means that the connection broke without a response. When the server closes an idle
 * connection at that moment, the request is repeated, as clients do.
 */
export function ask(target: Target, o: RequestInput): Promise<AttackResponse> {
  const began = performance.now();
  const { method, path, body } = o;
  const headers = { 'x-authorization': o.key, ...o.headers };
  return new Promise((resolve) => {
    const answered = (status: number, retryAfter?: string): void =>
      resolve({ status, ms: performance.now() - began, retryAfter });
    const req = request({ agent, port: target.port, host: '127.0.0.1', method, path, headers });
    req.once('response', (res) => {
      res.resume().once('end', () => answered(res.statusCode ?? 0, res.headers['retry-after']));
      res.once('error', () => answered(0));
    });
    req.once('error', (error: NodeJS.ErrnoException) => {
      const wasClosing = req.reusedSocket && error.code === 'ECONNRESET';
      if (wasClosing) resolve(ask(target, o));
      else answered(0);
    });
    req.end(body);
  });
}

/** Sends a body that decompresses to a thousand times its size. */
export function inflate(target: Target, key: string, nth: number): Promise<AttackResponse> {
  return ask(target, {
    key,
    method: 'POST',
    path: '/api/v1/dispositioning/assess',
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    body: INFLATING[nth % INFLATING.length] ?? Buffer.of(),
  });
}

/** Opens connections that send half of their headers and then nothing, until it is stopped. */
export function sendHalfHeaders(target: Target, perSecond: number) {
  const open = new Set<Socket>();
  let opened = 0;
  const timer = setInterval(() => {
    opened += 1;
    // The client never closes its side. The server must close the connection.
    const socket = connect({ port: target.port, host: '127.0.0.1', allowHalfOpen: true });
    open.add(socket);
    socket.on('error', () => {}).once('close', () => open.delete(socket));
    socket.resume().write('GET /api/v1/webhooks HTTP/1.1\r\nhost: x\r\nx-slow: ');
  }, 1_000 / perSecond);
  return {
    opened: () => opened,
    stop(): void {
      clearInterval(timer);
    },
    /** Closes all connections. */
    close(): void {
      for (const socket of open) socket.destroy();
    },
  };
}

/** Repeats a call with a pause in between, until it is stopped. */
export function repeat(call: () => Promise<AttackResponse>, pauseMs: number) {
  const answers: AttackResponse[] = [];
  let isOver = false;
  const done = (async () => {
    while (!isOver) {
      answers.push(await call());
      await sleep(pauseMs);
    }
  })();
  return {
    answers,
    stop(): Promise<void> {
      isOver = true;
      return done;
    },
  };
}
