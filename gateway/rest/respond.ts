import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HeldBytes } from '../http/body-budget.ts';
import { announcesBody, awaitsContinue } from './body.ts';
import { LARGE, sendLarge } from './large-answer.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Absent: an answer without a body. */
  readonly body?: { readonly contentType: string } & (
    | { readonly json: unknown }
    | { readonly text: string }
  );
}

/** Bytes of an unread body that are taken in silence, to keep the connection. */
const KEEP_BYTES = 64 * 1024;
/** Bytes and milliseconds that a client may go on sending after it has its answer. */
const DRAIN_BYTES = 64 * 1024 * 1024;
const DRAIN_MS = 3_000;

/** See {@link send}. */
export type HoldAnswer = (bytes: number) => Pick<HeldBytes, 'shrinkTo'> | undefined;

/**
 * Sends an answer, also while the client is still sending its body.
 *
 * Closing at once would reset the connection and with it lose the answer on its way; reading without
 * end would let a client stream for ever. So a large unread body is discarded for a while after the
 * whole answer is out, and then the connection closes.
 *
 * @param hold counts the bytes that wait for the client to read them, once the answer is made and before
 *   any is sent; may throw.
 */
export async function send(
  req: IncomingMessage,
  res: ServerResponse,
  answer: Answer,
  hold: HoldAnswer = () => undefined,
): Promise<void> {
  if (res.destroyed || res.headersSent) return;
  // A text goes out in one write with its headers, which are ASCII; bytes would go beside them.
  const body = answer.body && textOf(answer.body);
  const bytes = Buffer.byteLength(body ?? '');
  const held = hold(bytes);
  res.statusCode = answer.status;
  for (const [name, value] of Object.entries(answer.headers)) res.setHeader(name, value);
  if (answer.body && body !== undefined) {
    res.setHeader('Content-Type', answer.body.contentType);
    res.setHeader('Content-Length', bytes);
  }
  const unread = !req.complete && announcesBody(req);
  if (!unread || isSmall(req)) {
    // Nobody waits for the client: what the answer was made from is free from here on.
    if (body !== undefined && body.length > LARGE && req.method !== 'HEAD')
      void sendLarge(res, body, { held });
    else res.end(body);
    req.resume();
    return;
  }
  res.setHeader('Connection', 'close');
  // A client that waits for our word has sent nothing, and will not.
  if (awaitsContinue(req) && req.readableFlowing === null) return void res.end(body);
  res.flushHeaders();
  if (body && req.method !== 'HEAD') res.write(body);
  await drain(req);
  res.end();
}

function textOf(body: NonNullable<Answer['body']>): string {
  return 'text' in body ? body.text : JSON.stringify(body.json);
}

function isSmall(req: IncomingMessage): boolean {
  const length = req.headers['content-length'];
  return length !== undefined && Number(length) <= KEEP_BYTES && !awaitsContinue(req);
}

async function drain(req: IncomingMessage): Promise<void> {
  let left = DRAIN_BYTES;
  let timer: NodeJS.Timeout | undefined;
  await new Promise<void>((resolve) => {
    timer = setTimeout(resolve, DRAIN_MS);
    req.on('data', (chunk: Buffer) => {
      left -= chunk.length;
      if (left < 0) resolve();
    });
    req.on('end', resolve).on('close', resolve).on('error', resolve).resume();
  });
  clearTimeout(timer);
  req.pause();
}
