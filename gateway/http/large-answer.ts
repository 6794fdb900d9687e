import type { ServerResponse } from 'node:http';
import type { BodyBudget, HeldBytes } from '../http/body-budget.ts';
import { type MinimumRate, watchRate } from '../http/minimum-rate.ts';

/** The client did not read the response in time, and its connection was closed. */
export class AnswerNotRead extends Error {
  override readonly name = 'AnswerNotRead';
}

const NOT_READ = new AnswerNotRead('the client did not read the response in time');

/**
 * Counts a response in the memory budget until the client has read it. A large response of a slow client may be aborted
 * in favour of other requests.
 *
 * @throws HttpRefusal 429 beyond the budget of the shop, 503 beyond that of the process.
 */
export function holdAnswer(
  answers: BodyBudget,
  o: { readonly shopId: bigint | undefined; readonly res: ServerResponse; readonly bytes: number },
): HeldBytes {
  const { res } = o;
  const shop = String(o.shopId);
  const held = answers.open({ caller: shop, shop, res, end: () => res.destroy(NOT_READ) });
  held.growTo(o.bytes);
  return held;
}

/** A response with more characters than this is sent in pieces of {@link PIECE} characters. */
export const LARGE = 1024 * 1024;
const PIECE = 64 * 1024;

/**
 * Sends a large text piece by piece, and releases the memory of each piece that the client has read. Closes the
 * connection of a client that reads more slowly than the minimum rate.
 *
 * @param held counts what the client has not read.
 */
export async function sendLarge(
  res: ServerResponse,
  text: string,
  o: { readonly held?: Pick<HeldBytes, 'shrinkTo'> | undefined; readonly rate?: MinimumRate } = {},
): Promise<void> {
  return sendPieces(res, piecesOf(text), o);
}

async function sendPieces(
  res: ServerResponse,
  pieces: Buffer[],
  { held, rate }: Parameters<typeof sendLarge>[2] & object,
): Promise<void> {
  let left = pieces.reduce((sum, piece) => sum + piece.length, 0);
  const watch = watchRate(() => res.destroy(NOT_READ), rate);
  res.once('close', watch.stop);
  for (let piece = pieces.shift(); piece && !res.destroyed; piece = pieces.shift()) {
    if (!res.write(piece)) await drained(res);
    left -= piece.length;
    watch.moved(piece.length);
    held?.shrinkTo(left);
  }
  if (!res.destroyed) res.end();
}

/** Encodes the text in pieces, cut between characters. */
function piecesOf(text: string): Buffer[] {
  const pieces: Buffer[] = [];
  for (let at = 0; at < text.length; ) {
    let end = at + PIECE;
    if (isHighSurrogate(text.charCodeAt(end - 1))) end += 1;
    pieces.push(Buffer.from(text.slice(at, end)));
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
