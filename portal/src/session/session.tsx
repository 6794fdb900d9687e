import { TransportProvider, useQuery } from '@connectrpc/connect-query';
import { Button, Center, Loader, Stack } from '@mantine/core';
import { useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect, useMemo, useRef } from 'react';
import {
  type GetSessionResponse,
  SessionService,
  type SessionShop,
  type SessionUser,
} from '../../../proto/gen/rms/portal/v1/session_pb.ts';
import { createTransport, isSessionKey } from '../api/client.ts';
import { isSignedOut } from '../api/errors.ts';
import { ErrorState } from '../parts/states.tsx';
import { useZone } from '../parts/zone.ts';
import { onMoveElsewhere } from './shop-channel.ts';

/** A method of a service of the portal. */
interface Method {
  readonly name: string;
  readonly parent: { readonly typeName: string };
}

/** Who is signed in, and what they may do. */
export interface CurrentSession {
  readonly user: SessionUser;
  readonly shop: SessionShop;
  readonly shops: readonly SessionShop[];
  readonly links: GetSessionResponse['links'];
  /** Whether the user may call the method. What a user may not do is not shown. */
  can(method: Method): boolean;
  /** The same by the name, such as `ReturnsService/GetReturn`. */
  canCall(name: string): boolean;
}

const PACKAGE = 'rms.portal.v1.';

const SessionContext = createContext<CurrentSession | undefined>(undefined);

export function useSession(): CurrentSession {
  const session = useContext(SessionContext);
  if (!session) throw new Error('no session around this component');
  return session;
}

interface SessionGateProps {
  readonly children: ReactNode;
  /** Called when the session is at another shop than the page, because another tab moved it. */
  readonly onMoved: (shop: SessionShop) => void;
}

/** Reads the session, and shows the page inside when there is one. Another shop or zone starts the page again. */
export function SessionGate({ children, onMoved }: SessionGateProps) {
  const query = useQuery(
    SessionService.method.getSession,
    {},
    // Whoever returns to this tab sees the shop of the session, also if the tab missed the message of the other one.
    { refetchInterval: 60_000, refetchOnWindowFocus: 'always' },
  );
  const { refetch } = query;
  useEffect(() => onMoveElsewhere(() => void refetch()), [refetch]);
  const session = useMemo(() => query.data && sessionOf(query.data), [query.data]);
  const shopId = session?.shop.id;
  const zone = useZone();
  useEmptyCacheOnSwitch(session?.shop, onMoved);
  const transport = useMemo(() => createTransport(shopId), [shopId]);

  if (session) {
    return (
      <SessionContext.Provider value={session}>
        <TransportProvider key={`${shopId} ${zone}`} transport={transport}>
          {children}
        </TransportProvider>
      </SessionContext.Provider>
    );
  }
  const failed = query.error && !isSignedOut(query.error);
  return (
    <Center mih="100dvh" p="md">
      {failed ? (
        <Stack maw={480}>
          <ErrorState error={query.error} retry={() => void query.refetch()} />
          <Button component="a" href="/portal/sign-in" variant="default">
            Sign in again
          </Button>
        </Stack>
      ) : (
        <Loader role="status" aria-label="Loading" />
      )}
    </Center>
  );
}

/** What was read for one shop must not be shown in another. */
function useEmptyCacheOnSwitch(
  shop: SessionShop | undefined,
  onMoved: SessionGateProps['onMoved'],
): void {
  const cache = useQueryClient();
  const shown = useRef(shop?.id);
  useEffect(() => {
    const isOther = shown.current !== undefined && shown.current !== shop?.id;
    shown.current = shop?.id;
    if (!isOther) return;
    cache.removeQueries({ predicate: ({ queryKey }) => !isSessionKey(queryKey) });
    if (shop) onMoved(shop);
  }, [cache, shop, onMoved]);
}

function sessionOf(response: GetSessionResponse): CurrentSession | undefined {
  const { user, shop, shops, links } = response;
  if (!user || !shop) return undefined;
  const methods = new Set(response.methods);
  return {
    user,
    shop,
    shops,
    links,
    can: ({ name, parent }) => methods.has(`${parent.typeName}/${name}`),
    canCall: (name) => methods.has(`${PACKAGE}${name}`),
  };
}
