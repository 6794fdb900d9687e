import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage } from 'node:http';
import { type Listening, listenOnLoopback } from '../loopback.ts';

/** Maximum body size. Bytes. */
const MAX_BODY = 4 * 1024 * 1024;

/** Maximum age of an accepted attempt (Standard Webhooks advises five minutes). Seconds. */
const TOLERANCE_S = 300;

export interface Received {
  readonly webhookId: string;
  readonly eventId: string;
  /** Whether the signature is valid. */
  readonly valid: boolean;
  /** Empty when the signature is not valid. */
  readonly payload: { readonly id?: number; readonly trigger?: string };
}

interface Receiver {
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * A merchant's webhook endpoint. It verifies each signature as in Standard Webhooks and responds with 204.
 *
 * @param secretOf returns the subscription's secret. While it returns undefined, the endpoint responds with 503.
 * @param port 0 takes a free one.
 */
export async function startReceiver(
  secretOf: () => string | undefined,
  onReceived: (received: Received) => void,
  port = 0,
): Promise<Receiver> {
  const server = createServer(async (req, res) => {
    const body = await readBody(req).catch(() => undefined);
    const secret = secretOf();
    if (!body || !secret) {
      res.writeHead(body ? 503 : 413).end();
      return;
    }
    const valid = signatureHolds(req, body, secret);
    onReceived({
      webhookId: String(req.headers['webhook-id']),
      eventId: String(req.headers['x-service-event-id']),
      valid,
      // A body without a valid signature may be anything.
      payload: valid ? JSON.parse(body.toString('utf8')) : {},
    });
    res.writeHead(204).end();
  });
  const listening = await listenOnLoopback(server, port);
  return { url: `http://127.0.0.1:${listening.port}/webhooks`, stop: listening.stop };
}

async function readBody(req: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of req) {
    size += chunk.length;
    if (size > MAX_BODY) throw new Error('body too large');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Standard Webhooks: HMAC-SHA256 over `id.timestamp.body`, one of several space-separated `v1,` values. */
export function signatureHolds(
  { headers }: Pick<IncomingMessage, 'headers'>,
  body: Buffer,
  secret: string,
): boolean {
  const id = headers['webhook-id'];
  const timestamp = String(headers['webhook-timestamp']);
  if (Math.abs(Date.now() / 1000 - Number(timestamp)) > TOLERANCE_S) return false;
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const expected = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
  return String(headers['webhook-signature'])
    .split(' ')
    .filter((signature) => signature.startsWith('v1,'))
    .map((signature) => Buffer.from(signature.slice(3), 'base64'))
    .some((given) => given.length === expected.length && timingSafeEqual(given, expected));
}

/** A receiver that accepts every webhook, for the demo's own subscription. */
export function startSink(port: number): Promise<Listening> {
  const server = createServer((req, res) => {
    req.resume();
    req.once('end', () => res.writeHead(204).end());
  });
  return listenOnLoopback(server, port);
}
