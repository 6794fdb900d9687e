import { Agent, request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';

const BODY_BYTES = 32 * 1024 * 1024;
const ITEM = '{"line_item_id":21,"disposition_note":"x"}';
/** Bytes of a character that has V8 take two for every other one of the text. */
const WIDE_BYTES = 3;

/** A little to send, and as much as a body may be to hold: 32 MiB of JSON, narrow and wide. */
export const INFLATING = [
  gzipSync(`{"items":[${ITEM}]}`.padEnd(BODY_BYTES, ' ')),
  gzipSync(`{"€":"${'y'.repeat(BODY_BYTES - WIDE_BYTES - ITEM.length - 18)}","items":[${ITEM}]}`),
  gzipSync(`{"items":[${ITEM}],"more":[${new Array(49_000).fill('{}')}]}`.padEnd(BODY_BYTES, ' ')),
] as const;

export interface Target {
  readonly port: number;
}

export interface Answered {
  readonly status: number;
  readonly ms: number;
  readonly retryAfter: string | undefined;
}

const agent = new Agent({ keepAlive: true });

interface Asked {
  readonly key: string;
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Uint8Array;
}

/**
 * One request; status 0 when the connection broke without an answer. A kept connection that the server was about to
 * close says nothing of the request: it is made again, as clients do.
 */
export function ask(target: Target, o: Asked): Promise<Answered> {
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

/** Sends a body that inflates to a thousand times its size. */
export function inflate(target: Target, key: string, nth: number): Promise<Answered> {
  return ask(target, {
    key,
    method: 'POST',
    path: '/api/v1/dispositioning/assess',
    headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
    body: INFLATING[nth % INFLATING.length] ?? Buffer.of(),
  });
}

/** Opens connections that send half their headers and then nothing, until it is stopped. */
export function sendHalfHeaders(target: Target, perSecond: number) {
  const open = new Set<Socket>();
  let opened = 0;
  const timer = setInterval(() => {
    opened += 1;
    // It never ends its own side: the server has to.
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
    /** The attacker leaves. */
    close(): void {
      for (const socket of open) socket.destroy();
    },
  };
}

/** Calls again and again, with a pause between calls, until it is stopped. */
export function repeat(call: () => Promise<Answered>, pauseMs: number) {
  const answers: Answered[] = [];
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
