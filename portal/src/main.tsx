import './mantine-styles.ts';
import './page.css';
import { TransportProvider } from '@connectrpc/connect-query';
import { MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { createRoot } from 'react-dom/client';
import type { SessionShop } from '../../proto/gen/rms/portal/v1/session_pb.ts';
import { createCache, createTransport } from './api/client.ts';
import { warnBeforeLeaving } from './api/use-write.ts';
import { lazyPart } from './parts/lazy-part.tsx';
import { notifyDone } from './parts/notify.ts';
import { router } from './router.tsx';
import { SIGNED_OUT } from './session/leave.ts';
import { SessionGate } from './session/session.tsx';
import { theme } from './theme.ts';

/** The nonce of the page's policy, for the styles that Mantine adds. */
function styleNonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[property=csp-nonce]')?.nonce ?? '';
}

const Questions = lazyPart(async () => (await import('./parts/questions.tsx')).Questions);
const Notices = lazyPart(async () => (await import('./parts/notices.tsx')).Notices);
const SignedOut = lazyPart(async () => (await import('./session/signed-out.tsx')).SignedOut);

const root = document.getElementById('root');
if (!root) throw new Error('the page has no element "root"');
window.addEventListener('beforeunload', warnBeforeLeaving);
const cache = createCache();
const transport = createTransport(undefined);

/** What the page showed may not exist in the other shop, so it begins at the first page. */
function showOtherShop({ name }: SessionShop): void {
  notifyDone(`You are now in ${name}: you switched the shop in another tab.`);
  void router.navigate({ to: '/' });
}

/** The portal for a user who is signed in. */
const portal = (
  <TransportProvider transport={transport}>
    <QueryClientProvider client={cache}>
      <SessionGate onMoved={showOtherShop}>
        <RouterProvider router={router} />
        <Questions />
        <Notices />
      </SessionGate>
    </QueryClientProvider>
  </TransportProvider>
);

createRoot(root).render(
  <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={styleNonce}>
    {window.location.pathname === SIGNED_OUT ? <SignedOut /> : portal}
  </MantineProvider>,
);
