import { z } from 'zod';

export interface ClientCredentials {
  /** The issuer's token endpoint. */
  readonly url: string;
  readonly clientId: string;
  /** Called for each token, because the secret may change while the process runs. */
  readonly clientSecret: () => string;
  readonly scope?: string | undefined;
}

const TIMEOUT_MS = 5_000;
/** The part of a token's life in which it is used, so that a token that is sent is still valid when it arrives. */
const USED_SHARE = 0.8;

const answer = z.object({ access_token: z.string().min(1), expires_in: z.number().positive() });

/**
 * Access tokens by the client credentials grant (RFC 6749 section 4.4). Each token is fetched once and used for most of
 * its life.
 *
 * @returns a function that rejects when the issuer rejects the request or does not answer in time.
 */
export function clientCredentials(o: ClientCredentials): () => Promise<string> {
  let last: { readonly token: string; readonly until: number } | undefined;
  let asking: Promise<string> | undefined;

  async function ask(): Promise<string> {
    const credentials = [o.clientId, o.clientSecret()].map(encodeURIComponent).join(':');
    const response = await fetch(o.url, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` },
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        ...(o.scope !== undefined && { scope: o.scope }),
      }),
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (!response.ok) throw new Error(`the issuer of Kafka tokens answered ${response.status}`);
    const { access_token: token, expires_in: lifeS } = answer.parse(await response.json());
    last = { token, until: performance.now() + lifeS * 1_000 * USED_SHARE };
    return token;
  }

  return async () => {
    if (last && performance.now() < last.until) return last.token;
    asking ??= ask().finally(() => {
      asking = undefined;
    });
    return asking;
  };
}
