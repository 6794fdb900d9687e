import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { badBody, tooLarge, tooSlow, unsupportedMediaType } from '../errors.ts';
import { type HeldBytes, SMALL_BYTES } from '../http/body-budget.ts';
import { type MinimumRate, type RateWatch, watchRate } from '../http/minimum-rate.ts';

/** The client went away before its request was complete: there is nobody to answer. */
export class ClientGone extends Error {
  override readonly name = 'ClientGone';
}

const GONE = new ClientGone('the connection is closed');

/** The end of the work for a request: its answer is made, or the client has left. */
export interface WorkEnd {
  readonly signal: AbortSignal;
  /** The answer is made. */
  made(): void;
}

export function endOf(res: ServerResponse): WorkEnd {
  const end = new AbortController();
  // With one reason for all: an error of its own for each would cost more than the signal.
  const made = (): void => end.abort(GONE);
  res.once('close', made);
  return { signal: end.signal, made };
}

/** Counts the bytes of a body, inflated, as they are read. */
export interface BodyMeter {
  bodyBytes: number;
}

/** What a body may take. */
export interface BodyBounds {
  /** The limit as sent and after inflation. */
  readonly maxBytes: number;
  /** Counts also what is read of a body that is refused. */
  readonly meter: BodyMeter;
  /** The share of the budget of bytes in memory; whoever has it releases it. */
  readonly held: Pick<HeldBytes, 'growTo' | 'requireRoom'>;
  /** How fast a body must come once it holds much memory; `MINIMUM_RATE` when absent. */
  readonly rate?: MinimumRate;
}

/**
 * Reads the body of a request: media type, size and encoding are judged in this order.
 *
 * @returns the bytes, inflated; undefined when there is no body.
 * @throws HttpRefusal 415 (media type, encoding), 413 (size), 400 (broken gzip), 408 (too slow), 429 or
 *   503 (budget); ClientGone.
 */
export async function readBody(
  req: IncomingMessage,
  res: ServerResponse,
  bounds: BodyBounds,
): Promise<Buffer | undefined> {
  if (!announcesBody(req)) return undefined;
  if (!isJson(req.headers['content-type'])) {
    // A chunked body may turn out to be empty, and an absent body needs no media type.
    if (!isChunked(req) || !(await isEmpty(req, res))) {
      throw unsupportedMediaType('The body must be sent as application/json.');
    }
    return undefined;
  }
  const inflate = mustInflate(req.headers['content-encoding']);
  const announced = Number(req.headers['content-length'] ?? 0);
  if (announced > bounds.maxBytes) throw tooLarge(bounds.maxBytes);
  // Refused before it is sent; counted as it comes, so that an announcement alone holds nothing.
  bounds.held.requireRoom(announced);
  askForBody(req, res);
  const bytes = inflate ? await inflated(req, bounds) : await collect(req, req, bounds);
  return bytes.length === 0 && isChunked(req) ? undefined : bytes;
}

/** Whether the client says that a body follows (RFC 9112, 6.3). */
export function announcesBody(req: IncomingMessage): boolean {
  const length = req.headers['content-length'];
  return isChunked(req) || (length !== undefined && Number(length) !== 0);
}

/** Whether the client waits for our word before it sends its body (RFC 9110, 10.1.1). */
export function awaitsContinue(req: IncomingMessage): boolean {
  return req.headers.expect?.toLowerCase() === '100-continue';
}

/** Has a client that waits send its body; whoever is about to read it says so. */
export function askForBody(req: IncomingMessage, res: ServerResponse): void {
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
  held: { growTo: () => {}, requireRoom: () => {} },
};

async function isEmpty(req: IncomingMessage, res: ServerResponse): Promise<boolean> {
  askForBody(req, res);
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
 * Collects a stream up to a limit. Stops listening at the limit and leaves the request alone:
 * destroying it would cut the connection before the answer.
 */
async function collect(
  source: Readable,
  req: IncomingMessage,
  { maxBytes, meter, held, rate }: BodyBounds,
): Promise<Buffer> {
  // Nobody says so again when the client has left already.
  if (req.destroyed) throw new ClientGone();
  const chunks: Buffer[] = [];
  let size = 0;
  let watch: RateWatch | undefined;
  const listeners = new AbortController();
  const heard = (emitter: Readable, event: string, listener: (chunk: Buffer) => void): void => {
    emitter.on(event, listener);
    listeners.signal.addEventListener('abort', () => emitter.off(event, listener));
  };
  try {
    await new Promise<void>((resolve, reject) => {
      heard(source, 'data', (chunk) => {
        size += chunk.length;
        meter.bodyBytes += chunk.length;
        if (size > maxBytes) return reject(tooLarge(maxBytes));
        try {
          held.growTo(size);
        } catch (error) {
          return reject(error);
        }
        if (size > SMALL_BYTES) watch ??= watchRate(() => reject(tooSlow()), rate);
        watch?.moved(chunk.length);
        chunks.push(chunk);
      });
      heard(source, 'end', () => resolve());
      // Stays: what breaks after we stopped listening must not end the process.
      source.on('error', () =>
        reject(source === req ? new ClientGone() : badBody('The body is not valid gzip.')),
      );
      heard(req, 'close', () => {
        if (!req.complete) reject(new ClientGone());
      });
    });
  } finally {
    watch?.stop();
    listeners.abort();
    req.pause();
  }
  return Buffer.concat(chunks);
}
