/**
 * What an `Authorization` header holds when its scheme is `Bearer` (RFC 6750, 2.1), the scheme included;
 * undefined for another scheme, which is no credential of this service.
 */
export function bearerOf(authorization: string | undefined): string | undefined {
  const value = authorization?.trim() ?? '';
  return /^Bearer(?: |$)/i.test(value) ? value : undefined;
}

/** The token of a value that {@link bearerOf} returned; undefined when it is malformed. */
export function bearerToken(value: string): string | undefined {
  return /^Bearer +([\w.~+/=-]+)$/i.exec(value)?.[1];
}
