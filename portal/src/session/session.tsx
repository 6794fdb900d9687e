import { TransportProvider, useQuery } from '@connectrpc/connect-query';
import { Button, Center, Loader, Stack, Text, Title } from '@mantine/core';
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
import { useZone } from '../parts/time/zone.ts';

/** A method of a service of the portal. */
interface Method {
  readonly name: string;
  readonly parent: { readonly typeName: string };
}

/** Who is signed in, and what they may do. */
interface CurrentSession {
  readonly user: SessionUser;
  readonly shop: SessionShop;
  readonly shops: readonly SessionShop[];
  readonly links: GetSessionResponse['links'];
  /** Whether the user may call the method. What a user may not do is not shown. */
  can(method: Method): boolean;
  /** The same by the name, such as `ReturnsService/FindReturn`. True without a name. */
  canCall(name: string | undefined): boolean;
}
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

/** Reads the session, and shows the page inside when there is one. Another shop, user or zone starts the page again. */
export function SessionGate({ children, onMoved }: SessionGateProps) {
  const query = useQuery(
    SessionService.method.getSession,
    {},
    // A user who returns to this tab sees the shop of the session, also if the tab missed the message of the other one.
    { refetchInterval: 60_000, refetchOnWindowFocus: 'always' },
  );
  const { refetch } = query;
  useEffect(() => onMoveElsewhere(() => void refetch()), [refetch]);
  const session = useMemo(() => query.data && sessionOf(query.data), [query.data]);
  const [shopId, userId] = [session?.shop.id, session?.user.id];
  const zone = useZone();
  useEmptyCacheOnSwitch(session, onMoved);
  const transport = useMemo(() => createTransport(shopId, userId), [shopId, userId]);

  if (session) {
    return (
      <SessionContext.Provider value={session}>
        <TransportProvider key={`${shopId} ${userId} ${zone}`} transport={transport}>
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

/** What was read for one shop or user must not be shown in another shop, or to another user. */
function useEmptyCacheOnSwitch(
  session: CurrentSession | undefined,
  onMoved: SessionGateProps['onMoved'],
): void {
  const cache = useQueryClient();
  const shown = useRef(session);
  useEffect(() => {
    const former = shown.current;
    shown.current = session;
    if (!former || !session) return;
    const isMoved = former.shop.id !== session.shop.id;
    if (!isMoved && former.user.id === session.user.id) return;
    cache.removeQueries({ predicate: ({ queryKey }) => !isSessionKey(queryKey) });
    if (isMoved) onMoved(session.shop);
  }, [cache, session, onMoved]);
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
    canCall: (name) =>
      name === undefined || response.methods.some((method) => method.endsWith(`.${name}`)),
  };
}

let channel: BroadcastChannel | undefined;

/**
 * Between the tabs of this browser, which have the same session. One for the page: a channel does not receive its own
 * messages.
 */
function shopChannel(): BroadcastChannel {
  channel ??= new BroadcastChannel('portal-shop');
  return channel;
}

/** Asks the other tabs to read where the session is now, because it moved to another shop. */
export function announceMove(): void {
  shopChannel().postMessage('moved');
}

/** @returns a function that ends the subscription. */
function onMoveElsewhere(listener: () => void): () => void {
  const at = shopChannel();
  at.addEventListener('message', listener);
  return () => at.removeEventListener('message', listener);
}

/** The page after the sign-out. */
export function SignedOut() {
  return (
    <Center component="main" mih="100dvh" p="md">
      <Stack align="center" ta="center" maw={420}>
        <Title order={1}>You are signed out</Title>
        <Text c="dimmed">
          The page where you sign in may still know you. On a computer of other people, sign out
          there, too.
        </Text>
        <Button component="a" href="/portal/sign-in">
          Sign in
        </Button>
      </Stack>
    </Center>
  );
}
