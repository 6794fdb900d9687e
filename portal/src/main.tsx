import './page.css';
import { TransportProvider } from '@connectrpc/connect-query';
import { createTheme, type MantineColorsTuple, MantineProvider } from '@mantine/core';
import { QueryClientProvider } from '@tanstack/react-query';
import { RouterProvider } from '@tanstack/react-router';
import { createRoot } from 'react-dom/client';
import type { SessionShop } from '../../proto/gen/rms/portal/v1/session_pb.ts';
import { createCache, createTransport } from './api/client.ts';
import { SIGNED_OUT } from './api/network.ts';
import { warnBeforeLeaving } from './api/use-write.ts';
import { lazyPart } from './parts/lazy-part.tsx';
import { notifyDone } from './parts/notify.ts';
import { router } from './router.tsx';
import { SessionGate, SignedOut } from './session/session.tsx';

/** The blue of the sign-in pages; shade 6 has a contrast of more than 4.5:1 on white. */
const brand: MantineColorsTuple = [
  '#e9f1fd',
  '#d3e2fa',
  '#a6c4f4',
  '#76a4ee',
  '#4d88e8',
  '#2a6fdd',
  '#0b57c9',
  '#094bae',
  '#073f93',
  '#053278',
];

/** Fonts of the system, and colours whose text reaches the contrast of WCAG 2.2 AA in both schemes. */
const theme = createTheme({
  primaryColor: 'brand',
  primaryShade: { light: 6, dark: 5 },
  colors: { brand },
  autoContrast: true,
  luminanceThreshold: 0.35,
  defaultRadius: 'md',
  cursorType: 'pointer',
  respectReducedMotion: true,
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif",
  fontFamilyMonospace:
    "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace",
  headings: {
    fontWeight: '650',
    sizes: { h1: { fontSize: '1.5rem' }, h2: { fontSize: '1.125rem' } },
  },
});

/** The nonce of the page's policy, for the styles that Mantine adds. */
function styleNonce(): string {
  return document.querySelector<HTMLMetaElement>('meta[property=csp-nonce]')?.nonce ?? '';
}

const Messages = lazyPart(async () => (await import('./parts/messages.tsx')).Messages);

const root = document.getElementById('root');
if (!root) throw new Error('the page has no element "root"');
window.addEventListener('beforeunload', warnBeforeLeaving);
const cache = createCache();
const transport = createTransport();

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
        <Messages />
      </SessionGate>
    </QueryClientProvider>
  </TransportProvider>
);

createRoot(root).render(
  <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={styleNonce}>
    {window.location.pathname === SIGNED_OUT ? <SignedOut /> : portal}
  </MantineProvider>,
);
