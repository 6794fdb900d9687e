import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ReservedBytes } from './body-budget.ts';
import { LARGE, sendLarge } from './large-response.ts';
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

/** The rest of a request body up to this size is discarded, and the connection stays open. Bytes. */
const KEEP_ALIVE_BYTES = 64 * 1024;
/** Limits for discarding the rest of a larger body. After them the connection is closed. Bytes, milliseconds. */
const DRAIN_BYTES = 64 * 1024 * 1024;
const DRAIN_MS = 3_000;

/** See {@link send}. */
export type ReserveResponse = (bytes: number) => Pick<ReservedBytes, 'shrinkTo'> | undefined;

/**
 * Sends a response, even while the client is still sending its body.
 *
 * If the server closed the connection immediately, TCP would reset it and the client would lose the response. If the
 * server read the body without a limit, a client could send for ever. So the server discards the rest of a large body
 * for a limited time, and then closes the connection.
 *
 * @param reserve reserves memory for the bytes until the client has read them. Called before anything is sent; may
 *   throw.
 */
export async function send(
  req: IncomingMessage,
  res: ServerResponse,
  response: HttpResponse,
  reserve: ReserveResponse = () => undefined,
): Promise<void> {
  if (res.destroyed || res.headersSent) return;
  // Node writes a string body and the headers in one write. A Buffer would need a second write.
  const body = response.body && textOf(response.body);
  const bytes = Buffer.byteLength(body ?? '');
  const reserved = reserve(bytes);
  res.statusCode = response.status;
  for (const [name, value] of Object.entries(response.headers)) res.setHeader(name, value);
  if (response.body && body !== undefined) {
    res.setHeader('Content-Type', response.body.contentType);
    res.setHeader('Content-Length', bytes);
  }
  const unread = !req.complete && announcesBody(req);
  if (!unread || isSmall(req)) {
    // Nobody waits for `sendLarge`, so that the objects behind the response can be freed in the meantime.
    if (body !== undefined && body.length > LARGE && req.method !== 'HEAD')
      void sendLarge(res, body, { reserved });
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
  return length !== undefined && Number(length) <= KEEP_ALIVE_BYTES && !awaitsContinue(req);
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
