import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

/** Maximum bytes of standard input: half of a pod's `/tmp` (`deploy/base/pod.yaml`). Kubernetes evicts a pod whose `/tmp` is larger. */
const MAX_BYTES = 32 * 1024 * 1024;

/** A file without a name. It disappears when it is closed or the process exits. */
interface StoredInput {
  readonly source: FileHandle;
  readonly size: number;
}

/**
 * Stores standard input on disk, because an import reads its file twice. Only one chunk of it is in memory.
 *
 * @param o.sha256 hash of the whole file, in hexadecimal. Standard input also ends when the connection breaks, and only
 *   the hash shows that the file is incomplete.
 * @throws Error when the input is empty, larger than 32 MiB, or has another hash.
 */
export async function storeInput(
  input: AsyncIterable<Uint8Array>,
  o: { readonly sha256?: string | undefined; readonly maxBytes?: number } = {},
): Promise<StoredInput> {
  const { maxBytes = MAX_BYTES } = o;
  const file = await openUnnamed();
  try {
    const hash = createHash('sha256');
    let size = 0;
    for await (const chunk of input) {
      size += chunk.length;
      if (size > maxBytes) {
        throw new Error(
          `standard input has more than ${maxBytes} bytes: split the file where an invoice ends, and import the parts one after the other`,
        );
      }
      hash.update(chunk);
      await file.writeFile(chunk);
    }
    if (size === 0) {
      throw new Error(
        'standard input is empty: end the command with `< file.csv`, and give `kubectl exec` its option -i',
      );
    }
    const actual = hash.digest('hex');
    if (o.sha256 !== undefined && o.sha256 !== actual) {
      throw new Error(
        `standard input ended after ${size} bytes with the SHA-256 ${actual}: it is another file than that of --sha256, or the connection broke; run the command again`,
      );
    }
    return { source: file, size };
  } catch (error) {
    await file.close();
    throw error;
  }
}

async function openUnnamed(): Promise<FileHandle> {
  const folder = await mkdtemp(join(tmpdir(), 'rms-import-stdin-'));
  try {
    return await open(join(folder, 'input.csv'), 'wx+', 0o600);
  } finally {
    await rm(folder, { recursive: true });
  }
}
