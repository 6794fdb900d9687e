import { z } from 'zod';

const TIMEOUT_MS = 5_000;

const metadataSchema = z.object({ issuer: z.string(), jwks_uri: z.url() });

/**
 * The URL of an OpenID issuer's keys, from OpenID Connect Discovery.
 *
 * @throws Error with the issuer when its metadata cannot be read or is invalid.
 */
export async function jwksUrlOf(issuer: string): Promise<string> {
  const url = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
    const metadata = metadataSchema.parse(await response.json());
    if (metadata.issuer === issuer) return metadata.jwks_uri;
    throw new Error(`it calls itself ${metadata.issuer}`);
  } catch (error) {
    throw new Error(`OIDC_ISSUER ${issuer} cannot be used`, { cause: error });
  }
}
