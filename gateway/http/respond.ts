import type { IncomingMessage, ServerResponse } from 'node:http';
import type { HeldBytes } from '../http/body-budget.ts';
import { LARGE, sendLarge } from './large-answer.ts';
import { announcesBody, awaitsContinue } from './receive-body.ts';

export interface HttpResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** Absent for a response without a body. */
  readonly body?: { readonly contentType: string } & (
    | { readonly json: unknown }
    | { readonly text: string }
  );
}

/** An unread request body up to this size is discarded, so that the connection can be reused. Bytes. */
const KEEP_BYTES = 64 * 1024;
/** Limits for what a client may send after its response; in bytes and milliseconds. */
const DRAIN_BYTES = 64 * 1024 * 1024;
const DRAIN_MS = 3_000;

/** See {@link send}. */
export type HoldAnswer = (bytes: number) => Pick<HeldBytes, 'shrinkTo'> | undefined;

/**
 * Sends a response, also while the client is still sending its body.
 *
 * Closing the connection at once would reset it, and the client would lose the response. Reading without a limit would
 * let a client send for ever. So the rest of a large body is discarded for a limited time, and then the connection is
 * closed.
 *
 * @param hold counts the bytes in the memory budget until the client has read them. Called before anything is sent; may
 *   throw.
 */
export async function send(
  req: IncomingMessage,
  res: ServerResponse,
  answer: HttpResponse,
  hold: HoldAnswer = () => undefined,
): Promise<void> {
  if (res.destroyed || res.headersSent) return;
  // Node writes a string body together with the headers in one write; a Buffer would need a second one.
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
    // Not awaited, so that the objects that the response was made from can be freed.
    if (body !== undefined && body.length > LARGE && req.method !== 'HEAD')
      void sendLarge(res, body, { held });
    else res.end(body);
    req.resume();
    return;
  }
  res.setHeader('Connection', 'close');
  // A client that waits for `100 Continue` has not sent its body and will not send it.
  if (awaitsContinue(req) && req.readableFlowing === null) return void res.end(body);
  res.flushHeaders();
  if (body && req.method !== 'HEAD') res.write(body);
  await drain(req);
  res.end();
}

function textOf(body: NonNullable<HttpResponse['body']>): string {
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
