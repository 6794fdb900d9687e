import { z } from 'zod';

export interface ClientCredentials {
  /** The issuer's token endpoint. */
  readonly url: string;
  readonly clientId: string;
  /** Called for each new token, because the secret may change while the process runs. */
  readonly clientSecret: () => string;
  readonly scope?: string | undefined;
}

const TIMEOUT_MS = 5_000;
/** The part of its lifetime for which a token is used, so that it is still valid when it arrives at the broker. */
const USED_SHARE = 0.8;

const tokenResponse = z.object({
  access_token: z.string().min(1),
  expires_in: z.number().positive(),
});

/**
 * Gets access tokens by the client credentials grant (RFC 6749 section 4.4), and uses each token for most of its
 * lifetime.
 *
 * @returns a function that rejects when the issuer rejects the request or does not respond in time.
 */
export function clientCredentials(o: ClientCredentials): () => Promise<string> {
  let last: { readonly token: string; readonly until: number } | undefined;
  let fetching: Promise<string> | undefined;

  async function fetchToken(): Promise<string> {
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
    const { access_token: token, expires_in: lifeS } = tokenResponse.parse(await response.json());
    last = { token, until: performance.now() + lifeS * 1_000 * USED_SHARE };
    return token;
  }

  return async () => {
    if (last && performance.now() < last.until) return last.token;
    fetching ??= fetchToken().finally(() => {
      fetching = undefined;
    });
    return fetching;
  };
}
