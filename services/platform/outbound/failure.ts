import { isIP } from 'node:net';

/** The connection was not opened because its address is not allowed. */
export class AddressNotAllowed extends Error {
  override readonly name = 'AddressNotAllowed';
}

/** A step did not finish in time. The message is stored in the delivery log. */
export class TooLate extends Error {
  override readonly name = 'TooLate';
}

/** A response above our limits. The message is stored in the delivery log. */
export class ResponseLimitExceeded extends Error {
  override readonly name = 'ResponseLimitExceeded';
}

/** This process or its machine has no socket left. So the receiver is not the cause. */
export class NoSocketLeft extends Error {
  override readonly name = 'NoSocketLeft';
  /** Error code, such as `EMFILE`. */
  readonly code: string;

  constructor(cause: unknown) {
    super('this process has no socket left', { cause });
    this.code = codeOf(cause);
  }
}

/** The connection closed before the request was written. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
  readonly code = 'ECONNRESET';
}

/** Whether the attempt ended by a time limit: one of ours, or one of name servers or the network. */
export function isTimeout(error: unknown): boolean {
  return error instanceof TooLate || ['ETIMEDOUT', 'ETIMEOUT'].includes(codeOf(error));
}

/** Error codes that mean: this process or machine has no file descriptors or buffers left. */
const OWN_LIMITS: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS']);

/** Whether the attempt was not made because this process has no socket left. */
export function isNoSocketLeft(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  if ('errors' in error && Array.isArray(error.errors)) return error.errors.some(isNoSocketLeft);
  const code = codeOf(error);
  if (OWN_LIMITS.has(code)) return true;
  // All local ports are in use. For an IPv6 address the code means something else: this machine has no IPv6.
  if (code === 'EADDRNOTAVAIL') {
    return 'address' in error && typeof error.address === 'string' && isIP(error.address) === 4;
  }
  // The resolver could not open a socket, or the machine has no name server.
  return code === 'ECONNREFUSED' && 'syscall' in error && /^query/.test(String(error.syscall));
}

/** The stored text for an attempt that was not made, because its address is not allowed. */
export const NOT_ALLOWED = 'address not allowed';

/**
 * Returns the text that is stored for a failed attempt. It never contains an internal address. The message of a driver
 * may contain one, so it is not used.
 */
export function describeFailure(error: unknown): string {
  if (error instanceof AddressNotAllowed) return NOT_ALLOWED;
  if (error instanceof TooLate || error instanceof ResponseLimitExceeded) return error.message;
  const code = codeOf(error);
  if (code === 'UND_ERR_SOCKET' && error instanceof Error && error.message.startsWith('bad ')) {
    return 'answer is not one to a POST';
  }
  if (isDeadline(error)) return 'no complete answer in time';
  if (error instanceof Error && error.name === 'HTTPParserError') return notHttp(error);
  const what = code.startsWith('ERR_SSL_') ? 'TLS handshake failed' : 'connection failed';
  return TEXTS[code] ?? (code === '' ? what : `${what} (${code})`);
}

/** Whether the caller's `AbortSignal.timeout` ended the call. */
function isDeadline(error: unknown): boolean {
  return (
    typeof error === 'object' && error !== null && Reflect.get(error, 'name') === 'TimeoutError'
  );
}

/** The text for an error of undici's parser. The reason in parentheses is one of its constant texts. */
function notHttp({ message }: Error): string {
  const reason = /^Response does not match the HTTP\/1\.1 protocol \((.+)\)$/.exec(message)?.[1];
  return `answer is not HTTP/1.1${reason ? `: ${reason}` : ''}`;
}

const UNRESOLVED: Readonly<Record<string, string>> = {
  ENOTFOUND: 'host name not found',
  ENODATA: 'host name has no address',
  ESERVFAIL: 'host name could not be resolved',
  EREFUSED: 'host name could not be resolved',
  EBADNAME: 'host name could not be resolved',
  EBADRESP: 'host name could not be resolved',
  EFORMERR: 'host name could not be resolved',
  ETIMEOUT: 'host name not resolved in time',
};

const OLD_TLS = 'TLS handshake failed: the receiver must support TLS 1.2 or 1.3';

const TEXTS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset',
  EPIPE: 'connection reset',
  EHOSTUNREACH: 'host cannot be reached',
  ENETUNREACH: 'host cannot be reached',
  ETIMEDOUT: 'no connection in time',
  ...UNRESOLVED,
  UND_ERR_SOCKET: 'connection closed without a complete answer',
  UND_ERR_HEADERS_OVERFLOW: 'headers of the answer are too large',
  // undici also reports it in place of any error in the headers after a Content-Length, such as a second one.
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH:
    'answer is shorter or longer than it says, or its headers are not valid',
  // undici asserts a status from 200 on, and that a 101 has the header Upgrade.
  ERR_ASSERTION: 'answer is not HTTP/1.1: its status is not valid',
  CERT_HAS_EXPIRED: 'certificate has expired',
  CERT_NOT_YET_VALID: 'certificate is not valid yet',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'certificate is not trusted',
  SELF_SIGNED_CERT_IN_CHAIN: 'certificate is not trusted',
  UNABLE_TO_GET_ISSUER_CERT: 'certificate is not trusted',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'certificate is not trusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'certificate is not trusted',
  ERR_SSL_WRONG_VERSION_NUMBER: 'answer is not TLS',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'answer is not TLS',
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: OLD_TLS,
  ERR_SSL_UNSUPPORTED_PROTOCOL: OLD_TLS,
  ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL:
    'answer is not HTTP/1.1: the receiver offers only other protocols',
  ERR_TLS_CERT_ALTNAME_INVALID: 'certificate is for another host',
};

const SAME_TO_PARTNERS: ReadonlySet<string> = new Set(Object.values(UNRESOLVED));

/** The text that partners see in place of all reasons why no allowed address was found. */
export const NO_PUBLIC_ADDRESS = 'address is not allowed or cannot be resolved';

/**
 * Returns the text that partners see for a stored error. A name that does not resolve and an address that is not
 * allowed have the same text. A difference would show which names exist in our network.
 */
export function errorForPartners(stored: string): string {
  const isAddress = stored.startsWith(NOT_ALLOWED) || SAME_TO_PARTNERS.has(stored);
  return isAddress ? NO_PUBLIC_ADDRESS : stored;
}

/**
 * Returns the code of an error. When several addresses failed, the error contains one error for each, and the first one
 * counts.
 */
export function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  if ('errors' in error && Array.isArray(error.errors)) return codeOf(error.errors[0]);
  if (!('code' in error) || typeof error.code !== 'string') return '';
  return error.code;
}
