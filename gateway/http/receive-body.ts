import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { BodyCharge } from '../auth/body-charge.ts';
import type { Admission } from '../auth/rate-limits.ts';
import { badBody, rateLimited, tooLarge, tooSlow, unsupportedMediaType } from '../errors.ts';
import { type ReservedBytes, SMALL_BYTES } from './body-budget.ts';
import { ClientGone } from './client-gone.ts';
import { type MinimumRate, type RateWatch, watchRate } from './minimum-rate.ts';

/** Counts the bytes of a body that were read: as sent or after decompression, whichever are more. */
export interface BodyMeter {
  bodyBytes: number;
}

/** The limits of a body. */
export interface BodyBounds {
  /** Maximum size, both as sent and after decompression. */
  readonly maxBytes: number;
  /** Counts the bytes that were read, also those of a rejected body. */
  readonly meter: BodyMeter;
  /** The reservation of this request in the memory budget. The caller of this file's functions releases it. */
  readonly reserved: Pick<ReservedBytes, 'growTo' | 'requireCapacity'>;
  /** Minimum rate at which a large or late body must arrive; `MINIMUM_RATE` when absent. */
  readonly rate?: MinimumRate;
  /**
   * After this time a body is late, and the minimum rate applies also to a small one; {@link LATE_MS} when absent. 0
   * where the sender is known only after the body was read, because anybody could use up the budget of such bodies.
   * Milliseconds.
   */
  readonly lateMs?: number;
}

/** With the window of the minimum rate, a small body that stops arriving is rejected after 30 s. Milliseconds. */
const LATE_MS = 20_000;

/**
 * Receives the body of a request to REST or `/mcp`, and charges the caller for it. A rejected body is charged too,
 * because the gateway read and decompressed its bytes. ADR 21 says why the gateway uses no library for this.
 *
 * @returns the decompressed bytes; undefined when there is no body.
 * @throws HttpError 429 (rate limit, byte quota), and the errors of {@link readBody}.
 */
export async function receiveBody(
  req: IncomingMessage,
  res: ServerResponse,
  o: BodyBounds & { readonly charge: BodyCharge },
): Promise<Buffer | undefined> {
  if (announcesBody(req)) requireAdmitted(o.charge.check());
  const read = await readBody(req, res, o).catch((error: unknown) => {
    // `take` never rejects. The error response must not wait for it.
    void o.charge.take(o.meter.bodyBytes);
    throw error;
  });
  requireAdmitted(await o.charge.take(o.meter.bodyBytes));
  return read;
}

function requireAdmitted(admission: Admission): void {
  if (!admission.admitted) throw rateLimited(admission.retryAfterS);
}

/**
 * Reads the body of a request. Checks its media type, encoding and size.
 *
 * @returns the decompressed bytes; undefined when there is no body.
 * @throws HttpError 415 (media type, encoding), 413 (size), 400 (broken gzip), 408 (too slow), 429 or 503 (budget);
 *   ClientGone.
 */
export async function readBody(
  req: IncomingMessage,
  res: ServerResponse,
  bounds: BodyBounds,
): Promise<Buffer | undefined> {
  if (!announcesBody(req)) return undefined;
  if (!isJson(req.headers['content-type'])) {
    // Only the bytes show whether a chunked body is empty. An empty body needs no media type.
    if (!isChunked(req) || !(await isEmpty(req, res))) {
      throw unsupportedMediaType('The body must be sent as application/json.');
    }
    return undefined;
  }
  const inflate = mustInflate(req.headers['content-encoding']);
  const announced = Number(req.headers['content-length'] ?? 0);
  if (announced > bounds.maxBytes) throw tooLarge(bounds.maxBytes);
  // Check the announced length before the client sends the body. Reserve memory only as bytes arrive, so that a client
  // cannot use up the budget by an announcement.
  bounds.reserved.requireCapacity(announced);
  sendContinue(req, res);
  const bytes = inflate ? await inflated(req, bounds) : await collect(req, req, bounds);
  return bytes.length === 0 && isChunked(req) ? undefined : bytes;
}

/** Whether the request has a body (RFC 9112, 6.3). */
export function announcesBody(req: IncomingMessage): boolean {
  const length = req.headers['content-length'];
  return isChunked(req) || (length !== undefined && Number(length) !== 0);
}

/** Length of `{}`, which some clients send when they have no body. Bytes. */
const EMPTY_OBJECT = '{}'.length;

/** Whether the request announces a body that is longer than an empty object. Does not read the body. */
export function hasContent(req: IncomingMessage): boolean {
  return isChunked(req) || Number(req.headers['content-length'] ?? 0) > EMPTY_OBJECT;
}

/** Whether the client waits for `100 Continue` before it sends its body (RFC 9110, 10.1.1). */
export function awaitsContinue(req: IncomingMessage): boolean {
  return req.headers.expect?.toLowerCase() === '100-continue';
}

/** Sends `100 Continue` if the client waits for it. Must be called before the body is read. */
export function sendContinue(req: IncomingMessage, res: ServerResponse): void {
  if (awaitsContinue(req)) res.writeContinue();
}

function isChunked(req: IncomingMessage): boolean {
  return req.headers['transfer-encoding'] !== undefined;
}

function isJson(contentType: string | undefined): boolean {
  return /^\s*application\/json\s*(;|$)/i.test(contentType ?? '');
}

function mustInflate(encoding: string | undefined): boolean {
  const name = encoding?.trim().toLowerCase() ?? '';
  if (name === '' || name === 'identity') return false;
  if (name === 'gzip' || name === 'x-gzip') return true;
  throw unsupportedMediaType('The body may be encoded with gzip, or not at all.');
}

const NOTHING: BodyBounds = {
  maxBytes: 0,
  meter: { bodyBytes: 0 },
  reserved: { growTo: () => {}, requireCapacity: () => {} },
};

async function isEmpty(req: IncomingMessage, res: ServerResponse): Promise<boolean> {
  sendContinue(req, res);
  try {
    return (await collect(req, req, NOTHING)).length === 0;
  } catch (error) {
    if (error instanceof ClientGone) throw error;
    return false;
  }
}

async function inflated(req: IncomingMessage, bounds: BodyBounds): Promise<Buffer> {
  const gunzip = createGunzip();
  try {
    return await collect(req.pipe(gunzip), req, bounds);
  } finally {
    req.unpipe(gunzip);
    gunzip.destroy();
  }
}

/**
 * Reads a stream up to a limit, and stops there. It does not destroy the request, because that would close the
 * connection before the response is sent.
 */
async function collect(
  source: Readable,
  req: IncomingMessage,
  { maxBytes, meter, reserved, rate, lateMs = LATE_MS }: BodyBounds,
): Promise<Buffer> {
  // After a disconnect, there is no further `close` event.
  if (req.destroyed) throw new ClientGone();
  const chunks: Buffer[] = [];
  let size = 0;
  let sent = 0;
  let watch: RateWatch | undefined;
  let late: NodeJS.Timeout | undefined;
  const listeners = new AbortController();
  const listen = (emitter: Readable, event: string, listener: (chunk: Buffer) => void): void => {
    emitter.on(event, listener);
    listeners.signal.addEventListener('abort', () => emitter.off(event, listener));
  };
  try {
    await new Promise<void>((resolve, reject) => {
      const beginWatch = (): void => {
        watch ??= watchRate(() => reject(tooSlow()), rate);
      };
      late = setTimeout(beginWatch, lateMs);
      const isWithinMax = (): boolean => {
        meter.bodyBytes = Math.max(sent, size);
        if (meter.bodyBytes > maxBytes) reject(tooLarge(maxBytes));
        return meter.bodyBytes <= maxBytes;
      };
      // A gzip stream may have any number of bytes that inflate to nothing.
      if (source !== req) {
        listen(req, 'data', (chunk) => {
          sent += chunk.length;
          isWithinMax();
        });
      }
      listen(source, 'data', (chunk) => {
        size += chunk.length;
        if (!isWithinMax()) return;
        try {
          reserved.growTo(size);
        } catch (error) {
          return reject(error);
        }
        if (size > SMALL_BYTES) beginWatch();
        watch?.moved(chunk.length);
        chunks.push(chunk);
      });
      listen(source, 'end', () => resolve());
      // This listener stays. An error without a listener would end the process.
      source.on('error', () =>
        reject(source === req ? new ClientGone() : badBody('The body is not valid gzip.')),
      );
      listen(req, 'close', () => {
        if (!req.complete) reject(new ClientGone());
      });
    });
  } finally {
    clearTimeout(late);
    watch?.stop();
    listeners.abort();
    req.pause();
  }
  return Buffer.concat(chunks);
}
