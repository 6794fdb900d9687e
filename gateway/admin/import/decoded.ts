import { bytesOf, type Source } from './source.ts';

/** Beginnings of files that are no text, and what the files are. */
const NO_TEXT: readonly (readonly [hex: string, what: string])[] = [
  ['504b0304', 'a ZIP file, such as .xlsx or .ods'],
  ['d0cf11e0', 'an Excel file (.xls)'],
  ['1f8b', 'a compressed file'],
  ['25504446', 'a PDF file'],
];

/** Byte-order marks. */
const MARKS: readonly (readonly [hex: string, encoding: string])[] = [
  ['efbbbf', 'utf-8'],
  ['fffe', 'utf-16le'],
  ['feff', 'utf-16be'],
];

/**
 * Returns the encoding of a file: that of its byte-order mark, the one that the user named, the usual one of such
 * files, UTF-16 when every second byte of the beginning is zero, or else UTF-8.
 *
 * @throws Error for a file that is no text, and for an encoding that is unknown or contradicts the mark.
 */
export function encodingOf(
  head: Buffer,
  { named, usual }: { readonly named?: string | undefined; readonly usual?: string | undefined },
): string {
  const start = head.toString('hex', 0, 4);
  const what = NO_TEXT.find(([hex]) => start.startsWith(hex))?.[1];
  if (what) throw new Error(`the file is ${what}: open it, and save it as CSV UTF-8`);
  const marked = MARKS.find(([hex]) => start.startsWith(hex))?.[1];
  const chosen = named && nameOf(named);
  if (marked && chosen && chosen !== marked) {
    throw new Error(`the file begins with the mark of ${marked}: leave out --encoding ${named}`);
  }
  return marked ?? chosen ?? (usual && nameOf(usual)) ?? utf16In(head) ?? 'utf-8';
}

function nameOf(label: string): string {
  try {
    return new TextDecoder(label).encoding;
  } catch (cause) {
    const known = 'utf-8, utf-16le, utf-16be, windows-1252 and iso-8859-15';
    throw new Error(`unknown encoding ${label}: use one such as ${known}`, { cause });
  }
}

function utf16In(head: Buffer): string | undefined {
  if (head[1] === 0 && head[3] === 0) return 'utf-16le';
  return head[0] === 0 && head[2] === 0 ? 'utf-16be' : undefined;
}

/** Characters that no text has. An encoding with one byte for each character gives C1 for bytes that it does not use. */
const NUL = /\0/;
const NUL_OR_C1 = /[\0\u0080-\u009f]/;

/**
 * Reads a file as text.
 *
 * @param progress gets the number of bytes that were read.
 * @throws Error with the line of the first bytes that are no text in this encoding; for UTF-8 that is read in another
 *   encoding, because its texts would be wrong.
 */
export async function* decoded(
  source: Source,
  encoding: string,
  progress: { bytes: number },
): AsyncGenerator<string> {
  const strict = new TextDecoder(encoding, { fatal: true });
  const lenient = new TextDecoder(encoding);
  const isUnicode = encoding.startsWith('utf-');
  const utf8 = isUnicode ? undefined : new Utf8Test();
  const noCharacter = isUnicode ? NUL : NUL_OR_C1;
  let line = 1;
  for await (const chunk of bytesOf(source)) {
    progress.bytes += chunk.length;
    utf8?.add(chunk);
    const text = lenient.decode(chunk, { stream: true });
    const wrong = decodes(strict, chunk)
      ? text.search(noCharacter)
      : Math.max(0, text.indexOf('\ufffd'));
    if (wrong >= 0) throw undecodable(text.slice(0, wrong), line, encoding);
    line += text.split('\n').length - 1;
    if (text !== '') yield text;
  }
  if (!decodes(strict)) throw new Error(`line ${line}: the file ends within a character`);
  if (utf8?.isLikely) {
    throw new Error(`the file is UTF-8, not ${encoding}: add --encoding utf-8`);
  }
}

function decodes(decoder: InstanceType<typeof TextDecoder>, chunk?: Buffer): boolean {
  try {
    decoder.decode(chunk, { stream: chunk !== undefined });
    return true;
  } catch {
    return false;
  }
}

function undecodable(before: string, firstLine: number, encoding: string): Error {
  const lines = before.split('\n');
  const line = firstLine + lines.length - 1;
  const seen = lines.at(-1)?.slice(-30) ?? '';
  const advice =
    encoding === 'utf-8'
      ? 'save the file as CSV UTF-8, or name its encoding, such as --encoding windows-1252, windows-1250 or shift_jis'
      : 'name the encoding of the file with --encoding';
  return new Error(
    `line ${line}: the bytes after ${JSON.stringify(seen)} are no ${encoding.toUpperCase()}: ${advice}`,
  );
}

/** Finds out whether bytes that were called something else are UTF-8: they are valid, and not all ASCII. */
class Utf8Test {
  readonly #decoder = new TextDecoder('utf-8', { fatal: true });
  #isValid = true;
  #isAscii = true;

  get isLikely(): boolean {
    return this.#isValid && !this.#isAscii && decodes(this.#decoder);
  }

  add(chunk: Buffer): void {
    this.#isValid &&= decodes(this.#decoder, chunk);
    this.#isAscii &&= chunk.every((byte) => byte < 0x80);
  }
}
