import { randomBytes } from 'node:crypto';

interface Pair {
  access: string;
  /** Undefined for an access token that does not expire. */
  refresh: string | undefined;
  /** The refresh token that made this pair. It is accepted again until `refresh` is used. */
  previous: string | undefined;
}

/**
 * Shopify's rules for offline tokens, in the strictest reading of the reference: a store has one valid access token, each
 * refresh makes a new pair, and a used refresh token is accepted again until the replacement was used.
 */
export function createFakeTokens() {
  const stores = new Map<string, Pair>();
  const issued: string[] = [];
  const used: string[] = [];
  const newToken = (prefix: string) => `${prefix}_${randomBytes(16).toString('hex')}`;
  const tokens = {
    /** Whether installs get tokens that expire. */
    areExpiring: true,
    /** Seconds. */
    expiresIn: 3_600,
    /** The access tokens, oldest first. */
    issued,
    /** The refresh tokens that were accepted, oldest first. */
    used,
    /** The answer to the code of an install. */
    install(store: string, wantsExpiring: boolean): object {
      const refresh = tokens.areExpiring && wantsExpiring ? newToken('shprt') : undefined;
      return answerOf(store, { access: newToken('shpat'), refresh, previous: undefined });
    },
    /** The answer to a refresh token; undefined when it is not accepted. */
    refresh(store: string, token: string): object | undefined {
      const pair = stores.get(store);
      if (!pair || token === '' || (token !== pair.refresh && token !== pair.previous))
        return undefined;
      used.push(token);
      return answerOf(store, {
        access: newToken('shpat'),
        refresh: newToken('shprt'),
        previous: token,
      });
    },
    refreshOf: (store: string): string | undefined => stores.get(store)?.refresh,
    isValid: (store: string, access: string): boolean => stores.get(store)?.access === access,
    /** The merchant removes the app, or Shopify ends the chain. */
    revoke: (store: string): void => void stores.delete(store),
  };
  const answerOf = (store: string, pair: Pair): object => {
    stores.set(store, pair);
    issued.push(pair.access);
    const expiry = pair.refresh && {
      expires_in: tokens.expiresIn,
      refresh_token: pair.refresh,
      refresh_token_expires_in: 7_776_000,
    };
    return { access_token: pair.access, ...expiry };
  };
  return tokens;
}
