import type { Socket } from 'node:net';

/** The bytes of a status line that matter, by position. A digit of the version and of the status is 0. */
const LINE = Buffer.from('HTTP/1.0 100');
const ZERO = 0x30;
const TWO = 0x32;
const CR = 0x0d;
const LF = 0x0a;

/**
 * Makes a socket accept `100 Continue` before a response, also when the request did not expect it (RFC 9110, section
 * 15.2). undici closes the connection at 100, and skips every other informational response. So this changes 100 to 102
 * in what undici reads. It looks only at the status lines before the final response to a request.
 *
 * For HTTP/1.1 without pipelining: the next write after a final response begins a request.
 */
export function acceptContinue<S extends Socket>(socket: S): S {
  const { read, write } = socket;
  let scan = new Scan();
  socket.read = (size?: number) => {
    const chunk: unknown = read.call(socket, size);
    if (chunk instanceof Buffer) scan.change(chunk);
    return chunk;
  };
  socket.write = (...written: unknown[]) => {
    if (scan.isOver) scan = new Scan();
    return Reflect.apply(write, socket, written);
  };
  return socket;
}

/** Reads the heads of informational responses, until the final response begins. */
class Scan {
  isOver = false;
  /** Position in the status line; its length when the rest of the head is read. */
  #at = 0;
  /** Whether the digits so far are those of 100. */
  #isContinue = true;
  /** Number of bytes of the end of the head that were read: CR LF CR LF. */
  #end = 0;

  change(chunk: Buffer): void {
    for (let index = 0; index < chunk.length && !this.isOver; index += 1) {
      const byte = chunk[index] ?? 0;
      if (this.#at === LINE.length) this.#readHead(byte);
      else if (this.#readLine(byte)) chunk[index] = TWO;
    }
  }

  /** Returns whether this byte is the last digit of 100. */
  #readLine(byte: number): boolean {
    if (this.#at === 0 && (byte === CR || byte === LF)) return false;
    const isDigit = LINE[this.#at] === ZERO && byte >= ZERO && byte <= ZERO + 9;
    if (!isDigit && byte !== LINE[this.#at]) {
      this.isOver = true;
      return false;
    }
    if (this.#at > 9 && byte !== ZERO) this.#isContinue = false;
    this.#at += 1;
    return this.#at === LINE.length && this.#isContinue;
  }

  #readHead(byte: number): void {
    const isNext = byte === (this.#end % 2 === 0 ? CR : LF);
    this.#end = isNext ? this.#end + 1 : Number(byte === CR);
    if (this.#end < 4) return;
    [this.#at, this.#end, this.#isContinue] = [0, 0, true];
  }
}
