import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { connect, isIP, type Socket } from 'node:net';
import { createSecureContext, type SecureContext, connect as secure } from 'node:tls';
import { AddressNotAllowed } from './failure.ts';
import { checkConnection, isPublicAddress, type UrlPolicy } from './guard.ts';
import type { Resolve } from './resolver.ts';

/** Opens a TCP connection. Tries the addresses in this order. */
export type Dial = (addresses: readonly string[], port: number) => Socket;

/**
 * Durations of the steps. Each is set when its step ends. So a failed attempt has the durations of the steps before the
 * failure. Milliseconds.
 */
interface OpenTiming {
  dnsMs: number | null;
  connectMs: number | null;
  tlsMs: number | null;
}

export interface OpenOptions {
  readonly policy: UrlPolicy;
  readonly resolve: Resolve;
  readonly dial: Dial;
  readonly secureContext: SecureContext;
  /**
   * Called with the address that a connection has reached, before anything is sent. When it rejects, the other addresses
   * are tried.
   */
  readonly onReached?: (address: string) => Promise<void>;
}

/** Maximum number of addresses of a name that are tried. All of its addresses are checked. */
const MAX_ADDRESSES = 6;
/** Time limit for each address except the last one. Milliseconds. */
const NEXT_ADDRESS_MS = 1_000;

/**
 * Connects to the host of a URL, if webhooks may be sent there.
 *
 * Resolves the name once, checks every address, and connects only to these addresses, without another lookup. When one
 * address is not allowed, it connects to none.
 *
 * @throws AddressNotAllowed, the error of the resolver, the connection, `onReached` or the handshake, or the reason of
 *   the signal.
 */
export async function openSocket(
  url: URL,
  o: OpenOptions,
  { signal, timing }: { signal: AbortSignal; timing: OpenTiming },
): Promise<Socket> {
  const host = url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
  const check = checkConnection(url, o.policy);
  if (!check.ok) throw new AddressNotAllowed(`${check.reason}: ${host}`);
  const start = performance.now();
  const addresses = await addressesOf(host, {
    ...o,
    isAllowedOrigin: check.isAllowedOrigin,
    signal,
  });
  const resolved = performance.now();
  if (isIP(host) === 0) timing.dnsMs = resolved - start;
  const socket = await reach(addresses, { ...o, port: check.port, signal, timing });
  try {
    if (url.protocol === 'http:') return acceptContinue(socket);
    const handshakeAt = performance.now();
    const encrypted = await handshake(socket, { host, context: o.secureContext, signal });
    timing.tlsMs = performance.now() - handshakeAt;
    return acceptContinue(encrypted);
  } catch (error) {
    socket.destroy();
    throw signal.aborted ? signal.reason : error;
  }
}

interface Reach extends Pick<OpenOptions, 'dial' | 'onReached'> {
  readonly port: number;
  readonly signal: AbortSignal;
  readonly timing: OpenTiming;
}

/** Connects to an address that `onReached` accepts. Throws its first error if there is none. */
async function reach(addresses: readonly string[], o: Reach): Promise<Socket> {
  const start = performance.now();
  const socket = o.dial(addresses, o.port);
  // Until the socket is connected, `once` below reports its errors. Afterwards the user of the socket does.
  socket.on('error', () => {});
  try {
    await once(socket, 'connect', { signal: o.signal });
  } catch (error) {
    socket.destroy();
    throw o.signal.aborted ? o.signal.reason : error;
  }
  o.timing.connectMs = performance.now() - start;
  const reached = socket.remoteAddress ?? '';
  try {
    await o.onReached?.(reached);
    return socket;
  } catch (error) {
    socket.destroy();
    const others = addresses.filter((address) => address !== reached);
    if (others.length === 0 || others.length === addresses.length) throw error;
    return reach(others, o).catch(() => {
      throw error;
    });
  }
}

interface Lookup {
  readonly resolve: Resolve;
  readonly isAllowedOrigin: boolean;
  readonly signal: AbortSignal;
}

async function addressesOf(host: string, o: Lookup): Promise<readonly string[]> {
  // The URL has an address and no name. `openSocket` has already checked it.
  if (isIP(host) !== 0) return [host];
  if (o.isAllowedOrigin) return unlessAborted(systemAddresses(host), o.signal);
  const addresses = await unlessAborted(o.resolve(host), o.signal);
  if (addresses.length === 0 || !addresses.every(isPublicAddress)) {
    throw new AddressNotAllowed(`${host} leads to an address that is not allowed`);
  }
  return addresses.slice(0, MAX_ADDRESSES);
}

/** Resolves a name as programs on this machine do, so that local names work. For development only. */
async function systemAddresses(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const stop = (): void => reject(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

async function handshake(
  socket: Socket,
  o: { host: string; context: SecureContext; signal: AbortSignal },
): Promise<Socket> {
  const encrypted = secure({
    socket,
    host: o.host,
    // A URL with an address has no server name for TLS. The certificate must still be for the address.
    ...(isIP(o.host) === 0 && { servername: o.host }),
    secureContext: o.context,
    ALPNProtocols: ['http/1.1'],
    // Set the value explicitly, so that no environment variable can disable the check.
    rejectUnauthorized: true,
  });
  encrypted.on('error', () => {});
  try {
    await once(encrypted, 'secureConnect', { signal: o.signal });
    return encrypted;
  } catch (error) {
    encrypted.destroy();
    throw error;
  }
}

/** Trusts the well-known certificate authorities. In tests it trusts only the authority `ca`. */
export function trustOf(ca: string | undefined): SecureContext {
  return createSecureContext({ minVersion: 'TLSv1.2', ...(ca !== undefined && { ca }) });
}

/** Connects by TCP to checked addresses. They are no names, so nothing is looked up. */
export const dialTcp: Dial = (addresses, port) => {
  const [first = ''] = addresses;
  if (addresses.length === 1) return connect({ host: first, port, noDelay: true });
  const list = addresses.map((address) => ({ address, family: isIP(address) }));
  return connect({
    host: 'checked.invalid',
    port,
    noDelay: true,
    autoSelectFamily: true,
    autoSelectFamilyAttemptTimeout: NEXT_ADDRESS_MS,
    lookup: (_host, _options, callback) => callback(null, list),
  });
};

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
function acceptContinue<S extends Socket>(socket: S): S {
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
