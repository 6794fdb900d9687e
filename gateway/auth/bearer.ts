/**
 * Returns the value of an `Authorization` header, including its scheme, if the scheme is `Bearer` (RFC 6750, 2.1);
 * undefined for other schemes, which this service ignores.
 */
export function bearerOf(authorization: string | undefined): string | undefined {
  const value = authorization?.trim() ?? '';
  return /^Bearer(?: |$)/i.test(value) ? value : undefined;
}

/** Returns the token in a result of {@link bearerOf}; undefined when it is malformed. */
export function bearerToken(value: string): string | undefined {
  return /^Bearer +([\w.~+/=-]+)$/i.exec(value)?.[1];
}
