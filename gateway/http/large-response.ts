import type { ServerResponse } from 'node:http';
import type { BodyBudget, ReservedBytes } from './body-budget.ts';
import { type MinimumRate, watchRate } from './minimum-rate.ts';

/** The client did not read the response in time, and its connection was closed. */
export class ResponseNotRead extends Error {
  override readonly name = 'ResponseNotRead';
}

const NOT_READ = new ResponseNotRead('the client did not read the response in time');

/**
 * Reserves memory for a response until the client has read it. When other requests need the memory, the large response
 * of a slow client may be aborted.
 *
 * @throws HttpError 429 beyond the budget of the shop, 503 beyond that of the process.
 */
export function reserveResponse(
  responses: BodyBudget,
  o: { readonly shopId: bigint | undefined; readonly res: ServerResponse; readonly bytes: number },
): ReservedBytes {
  const { res } = o;
  const shop = String(o.shopId);
  const reserved = responses.open({
    caller: shop,
    shop,
    res,
    abort: () => res.destroy(NOT_READ),
  });
  reserved.growTo(o.bytes);
  return reserved;
}

/** Texts with more characters than this are large. They are sent in pieces of {@link PIECE}. */
export const LARGE = 1024 * 1024;
const PIECE = 64 * 1024;

/**
 * Sends a large text piece by piece. Releases the memory of each piece that the client has read. Closes the connection
 * of a client that reads more slowly than the minimum rate.
 *
 * @param o.reserved the memory of the response. It shrinks as the client reads.
 */
export async function sendLarge(
  res: ServerResponse,
  content: string,
  {
    reserved,
    rate,
  }: {
    readonly reserved?: Pick<ReservedBytes, 'shrinkTo'> | undefined;
    readonly rate?: MinimumRate | undefined;
  } = {},
): Promise<void> {
  const pieces = piecesOf(content);
  let left = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const watch = watchRate(() => res.destroy(NOT_READ), rate);
  res.once('close', watch.stop);
  for (let piece = pieces.shift(); piece && !res.destroyed; piece = pieces.shift()) {
    if (!res.write(piece)) await drained(res);
    left -= piece.length;
    watch.moved(piece.length);
    reserved?.shrinkTo(left);
  }
  if (!res.destroyed) res.end();
}

/** Divides the text. A piece ends between two characters. */
function piecesOf(content: string): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < content.length; ) {
    const isPair = isHighSurrogate(content.charCodeAt(at + PIECE - 1));
    const end = at + PIECE + (isPair ? 1 : 0);
    pieces.push(Buffer.from(content.slice(at, end)));
    at = end;
  }
  return pieces;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd8_00 && unit <= 0xdb_ff;
}

/** Waits until more can be written or the client has disconnected. */
export function drained(res: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      res.off('drain', done).off('close', done);
      resolve();
    };
    res.on('drain', done).on('close', done);
  });
}
