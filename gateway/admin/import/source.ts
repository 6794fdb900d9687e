import { createReadStream } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { buffer } from 'node:stream/consumers';

/** A path, or an open file. It is read from its beginning each time. */
export type Source = string | FileHandle;

const HEAD_BYTES = 65_536;

/** Says why a file cannot be opened, and what to do. */
export function unreadable(path: string, cause: NodeJS.ErrnoException): Error {
  const why =
    cause.code === 'ENOENT'
      ? `there is no file ${path}`
      : `${path} cannot be read (${cause.message}): use a file that this user may read`;
  return new Error(why, { cause });
}

/** Opens a stream of the bytes of a file, from its beginning. */
export function bytesOf(
  source: Source,
  end?: number,
): AsyncIterable<Buffer> & NodeJS.ReadableStream {
  const range = { start: 0, ...(end !== undefined && { end }) };
  return typeof source === 'string'
    ? createReadStream(source, range)
    : source.createReadStream({ ...range, autoClose: false });
}

/** Reads the first 64 KiB of a file. */
export async function readHead(source: Source): Promise<Buffer> {
  return buffer(bytesOf(source, HEAD_BYTES - 1));
}
