import { createHash } from 'node:crypto';
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Maximum bytes of a file that comes through standard input: half of a pod's `/tmp`, whose limit would end the pod. */
const MAX_BYTES = 32 * 1024 * 1024;

/** A file without a name, which vanishes when it is closed or the process ends. */
interface StoredInput {
  readonly source: FileHandle;
  readonly size: number;
}

/**
 * Stores standard input on disk, because an import reads its file twice. Only one chunk of it is in memory.
 *
 * @param o.sha256 of the whole file, in hexadecimal. A connection that breaks ends standard input as a whole file does,
 *   and only this tells the two apart.
 * @throws Error when it is empty, larger than 32 MiB, or not the file that was stated.
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
      if (size > maxBytes)
        throw new Error(`standard input has more than ${maxBytes} bytes: ${SPLIT}`);
      hash.update(chunk);
      await file.writeFile(chunk);
    }
    if (size === 0) throw new Error(`standard input is empty: ${PIPE}`);
    const found = hash.digest('hex');
    if (o.sha256 !== undefined && o.sha256 !== found) {
      throw new Error(`standard input ended after ${size} bytes with the SHA-256 ${found}: ${CUT}`);
    }
    return { source: file, size };
  } catch (error) {
    await file.close();
    throw error;
  }
}

const SPLIT = 'split the file where an invoice ends, and import the parts one after the other';
const PIPE = 'end the command with `< file.csv`, and give `kubectl exec` its option -i';
const CUT = 'it is not the file that --sha256 names, or the connection broke; run it again';

async function openUnnamed(): Promise<FileHandle> {
  const folder = await mkdtemp(join(tmpdir(), 'rms-import-stdin-'));
  try {
    return await open(join(folder, 'input.csv'), 'wx+', 0o600);
  } finally {
    await rm(folder, { recursive: true });
  }
}
