import { Code, ConnectError, type Interceptor, type Transport } from '@connectrpc/connect';
import { createConnectTransport } from '@connectrpc/connect-web';
import { QueryCache, QueryClient } from '@tanstack/react-query';
import { SessionService } from '../../../proto/gen/rms/portal/v1/session_pb.ts';
import { hasLeft } from '../api/network.ts';
import { setClock } from '../parts/time/clock.ts';
import { isPassing, isSignedOut } from './errors.ts';
import { fetchNoted } from './network.ts';

/** Where the gateway serves the services of `rms.portal.v1`. */
const API_PATH = '/portal/api';

/** Time limit of a call. Milliseconds. */
const CALL_MS = 30_000;

/** How long data counts as current. Milliseconds. */
const FRESH_MS = 5_000;

const RETRIES = 2;

/** What would be lost with the page: fields of a form, and a secret that is shown once. */
const UNSAVED =
  'dialog[open] :is(input, textarea, select), dialog[open][data-sticky], form[data-unsaved=true]';

/** Sends the browser to the sign-in, and back to this address afterwards. */
function signIn(): void {
  if (document.querySelector(UNSAVED)) return;
  const { pathname, search } = window.location;
  const returnTo = new URLSearchParams({ return_to: pathname + search });
  window.location.assign(`/portal/sign-in?${returnTo}`);
}

/** Whether a key of the cache is of a call of the session itself, which works whatever shop the page shows. */
export function isSessionKey(key: readonly unknown[]): boolean {
  return JSON.stringify(key).includes(SessionService.typeName);
}

/** The cache of all calls. Reads that fail because the service is unavailable are repeated. */
export function createCache(): QueryClient {
  // A call was redirected: the session has ended, or it moved to another shop in another tab. The session itself says
  // which: when it answers, `SessionGate` shows the other shop.
  const onError = (error: unknown, isOfSession: boolean): void => {
    if (!isSignedOut(error) || hasLeft()) return;
    if (isOfSession) signIn();
    else void cache.refetchQueries({ predicate: ({ queryKey }) => isSessionKey(queryKey) });
  };
  const cache = new QueryClient({
    queryCache: new QueryCache({
      onError: (error, { queryKey }) => onError(error, isSessionKey(queryKey)),
    }),
    defaultOptions: {
      queries: {
        // By default a read of an offline browser waits for the network without a word.
        networkMode: 'always',
        refetchOnReconnect: true,
        staleTime: FRESH_MS,
        retry: (failures, error) => failures < RETRIES && isPassing(error),
      },
    },
  });
  return cache;
}

/**
 * Names the shop that the page shows with every call, so that a call fails instead of reaching another shop after the
 * session was switched in another tab.
 */
function namesShop(shopId: string): Interceptor {
  return (next) => (request) => {
    if (request.service.typeName !== SessionService.typeName) {
      request.header.set('Portal-Shop', shopId);
    }
    return next(request);
  };
}

/**
 * Asks for a redirect instead of an error when there is no session, or when it is at another shop: a browser reports
 * every 4xx as an error. The redirect is not followed.
 */
const asksForRedirect: Interceptor = (next) => (request) => {
  if (hasLeft()) return new Promise<never>(() => {});
  request.header.set('Portal-No-Session', 'redirect');
  return next(request);
};

const withoutRedirects: typeof fetch = async (input, init) => {
  const response = await fetchNoted(input, { ...init, redirect: 'manual' });
  setClock(response.headers.get('date'));
  if (response.type !== 'opaqueredirect') return response;
  throw new ConnectError('Your session has ended, or is at another shop.', Code.Unauthenticated);
};

/** How the page calls the services. */
export interface ShopTransport extends Transport {
  /** The shop that the page shows; undefined while the session is not known. */
  readonly shopId?: string | undefined;
  /** The user for whom it shows it. Another one may sign in in the same tab. */
  readonly userId?: string | undefined;
}

export function createTransport(shopId?: string, userId?: string): ShopTransport {
  const transport = createConnectTransport({
    baseUrl: API_PATH,
    defaultTimeoutMs: CALL_MS,
    fetch: withoutRedirects,
    interceptors: [asksForRedirect, ...(shopId === undefined ? [] : [namesShop(shopId)])],
  });
  return { ...transport, shopId, userId };
}
