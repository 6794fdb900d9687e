/**
 * The value of an `Authorization` header with the scheme `Bearer` (RFC 6750, 2.1), including the scheme.
 * Undefined for other schemes; this service ignores them.
 */
export function bearerOf(authorization: string | undefined): string | undefined {
  const value = authorization?.trim() ?? '';
  return /^Bearer(?: |$)/i.test(value) ? value : undefined;
}

/** The token of a value that {@link bearerOf} returned; undefined when it is malformed. */
export function bearerToken(value: string): string | undefined {
  return /^Bearer +([\w.~+/=-]+)$/i.exec(value)?.[1];
}
