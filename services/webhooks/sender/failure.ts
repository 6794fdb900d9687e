import { isIP } from 'node:net';

/** A connection that was not made because of where it would have led. */
export class AddressRefused extends Error {
  override readonly name = 'AddressRefused';
}

/** What did not happen in its time. The message goes into the delivery log. */
export class TooLate extends Error {
  override readonly name = 'TooLate';
}

/** An answer that no client should have to bear. The message goes into the delivery log. */
export class AnswerRefused extends Error {
  override readonly name = 'AnswerRefused';
}

/** This process or its machine has no socket left: nothing that its receiver did. */
export class OwnExhaustion extends Error {
  override readonly name = 'OwnExhaustion';
  /** Such as `EMFILE`. */
  readonly code: string;

  constructor(cause: unknown) {
    super('this process has no socket left', { cause });
    this.code = codeOf(cause);
  }
}

/** A connection that was gone before the request was written to it. */
export class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost';
  readonly code = 'ECONNRESET';
}

/** Whether time ran out: ours, or that of name servers or the network. */
export function isTooLate(error: unknown): boolean {
  return error instanceof TooLate || ['ETIMEDOUT', 'ETIMEOUT'].includes(codeOf(error));
}

/** Out of file descriptors, of this process or of the machine, or of buffers. */
const OWN_LIMITS: ReadonlySet<string> = new Set(['EMFILE', 'ENFILE', 'ENOBUFS']);

/** Whether an attempt failed because this process lacks something; the receiver is not at fault. */
export function isOwnExhaustion(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false;
  if ('errors' in error && Array.isArray(error.errors)) return error.errors.some(isOwnExhaustion);
  const code = codeOf(error);
  if (OWN_LIMITS.has(code)) return true;
  // All local ports are in use. Of an IPv6 address it says that this machine has no IPv6, which does not pass.
  if (code === 'EADDRNOTAVAIL') {
    return 'address' in error && typeof error.address === 'string' && isIP(error.address) === 4;
  }
  // The resolver could not open a socket, or no name server is there.
  return code === 'ECONNREFUSED' && 'syscall' in error && /^query/.test(String(error.syscall));
}

/** What is stored of an attempt that was not made because of where it would have led. */
export const NOT_ALLOWED = 'address not allowed';

/** What is stored of a failed attempt: never an inside address, which a driver's text may hold. */
export function describeFailure(error: unknown): string {
  if (error instanceof AddressRefused) return NOT_ALLOWED;
  if (error instanceof TooLate || error instanceof AnswerRefused) return error.message;
  const code = codeOf(error);
  if (code === 'UND_ERR_SOCKET' && error instanceof Error && error.message.startsWith('bad ')) {
    return 'answer is not one to a POST';
  }
  return TEXTS[code] ?? (code === '' ? 'connection failed' : `connection failed (${code})`);
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
  UND_ERR_RES_CONTENT_LENGTH_MISMATCH: 'answer is shorter or longer than it says',
  CERT_HAS_EXPIRED: 'certificate has expired',
  CERT_NOT_YET_VALID: 'certificate is not valid yet',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'certificate is not trusted',
  SELF_SIGNED_CERT_IN_CHAIN: 'certificate is not trusted',
  UNABLE_TO_GET_ISSUER_CERT: 'certificate is not trusted',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'certificate is not trusted',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'certificate is not trusted',
  ERR_TLS_CERT_ALTNAME_INVALID: 'certificate is for another host',
};

const SAME_TO_PARTNERS: ReadonlySet<string> = new Set(Object.values(UNRESOLVED));

/** Stands for every reason why no address to connect to was found. */
export const NO_PUBLIC_ADDRESS = 'address is not allowed or cannot be resolved';

/**
 * What a partner is shown of a stored error. Whether a name does not resolve or leads to an address
 * that is not allowed is one text: the difference would tell which names exist inside our network.
 */
export function errorForPartners(stored: string): string {
  const isAddress = stored.startsWith(NOT_ALLOWED) || SAME_TO_PARTNERS.has(stored);
  return isAddress ? NO_PUBLIC_ADDRESS : stored;
}

/** By shape: several addresses fail as one error that holds theirs. */
export function codeOf(error: unknown): string {
  if (typeof error !== 'object' || error === null) return '';
  if ('errors' in error && Array.isArray(error.errors)) return codeOf(error.errors[0]);
  if (!('code' in error) || typeof error.code !== 'string') return '';
  return error.code.startsWith('HPE_') ? 'not HTTP/1.1' : error.code;
}
