import { Badge, Button, Text, useMantineColorScheme } from '@mantine/core';
import {
  Link,
  Outlet,
  useMatches,
  useNavigate,
  useRouter,
  useRouterState,
} from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { SessionService } from '../../../proto/gen/rms/portal/v1/session_pb.ts';
import { leave } from '../api/network.ts';
import { useWrite } from '../api/use-write.ts';
import { ActionMenu } from '../parts/action-menu.tsx';
import { SecondLine } from '../parts/cell-lines.tsx';
import { closeUndos } from '../parts/notify.ts';
import { PageHead } from '../parts/page-head.tsx';
import { EmptyState, ErrorState } from '../parts/states.tsx';
import { currentZone, localZoneName, setZone } from '../parts/time/zone.ts';
import { announceMove, useSession } from '../session/session.tsx';
import { roleName } from '../words.ts';
import styles from './frame.module.css';

/** What is around every page: the navigation, the shop, the account. */
export function Frame() {
  const { shop, canCall } = useSession();
  const [opened, setOpened] = useState(false);
  const main = useFocusOnNewPage();
  // Before the page makes its first call.
  const needs = useMatches({ select: (matches) => matches.at(-1)?.staticData.needs });
  return (
    <div className={styles.frame}>
      <a className={styles.skip} href="#page">
        Skip to the page
      </a>
      <header className={styles.header}>
        <button
          type="button"
          className={styles.burger}
          aria-expanded={opened}
          aria-controls="navigation"
          aria-label={opened ? 'Close the navigation' : 'Open the navigation'}
          onClick={() => setOpened(!opened)}
        >
          <Icon strokes={opened ? 'M6 6l12 12M18 6 6 18' : 'M4 7h16M4 12h16M4 17h16'} />
        </button>
        <Brand />
        <ShopSwitcher />
        {shop.sandbox && (
          <Badge color="yellow" variant="light" className={styles.sandbox ?? ''}>
            Sandbox
          </Badge>
        )}
        <div className={styles.account}>
          <AccountMenu />
        </div>
      </header>
      <nav id="navigation" aria-label="Portal" className={styles.navbar} data-opened={opened}>
        <Navigation onNavigate={() => setOpened(false)} />
      </nav>
      <main id="page" ref={main} tabIndex={-1} className={styles.main}>
        {canCall(needs) ? <Outlet /> : <NotAllowed />}
      </main>
    </div>
  );
}

function Brand() {
  return (
    <Link to="/" className={styles.brand ?? ''} aria-label="Returns portal, first page">
      <svg width="28" height="28" viewBox="0 0 32 32" aria-hidden="true">
        <rect width="32" height="32" rx="8" fill="var(--mantine-color-brand-6)" />
        <path
          d="M11 9 6.500 13.500 11 18M7 13.500h11.500a5 5 0 0 1 0 10H13"
          fill="none"
          stroke="#fff"
          strokeWidth="2.500"
          strokeLinecap="round"
          strokeLinejoin="round"
        />
      </svg>
      <Text fw={650} visibleFrom="md" span>
        Returns portal
      </Text>
    </Link>
  );
}

/** The areas of the portal in the order of the navigation. */
const GROUPS = [
  {
    title: 'Integration',
    areas: [
      ['/webhooks', 'Webhooks'],
      ['/payload-version', 'Payload version'],
      ['/api-keys', 'API keys'],
      ['/partner-apps', 'Partner apps'],
      ['/usage', 'Who calls which version'],
    ],
  },
  {
    title: 'Goods',
    areas: [
      ['/returns', 'Returns'],
      ['/withdrawals', 'Withdrawals'],
      ['/destinations', 'Destinations'],
      ['/policy', 'Policy'],
    ],
  },
  {
    title: 'Shop',
    areas: [
      ['/settings', 'Settings'],
      ['/commerce', 'Commerce platform'],
      ['/team', 'Team and roles'],
      ['/assistants', 'Connected assistants'],
      ['/audit-log', 'Audit log'],
    ],
  },
] as const;

/** The strokes of their icons, on a grid of 24. */
const ICONS: Readonly<Record<Area, string>> = {
  '/webhooks': 'M5 12h6m2 0h6M5 12a2 2 0 1 1-.01 0M19 12a2 2 0 1 0 .01 0M12 5v4m0 6v4',
  '/payload-version': 'M4 7l8-4 8 4-8 4zM4 12l8 4 8-4M4 17l8 4 8-4',
  '/api-keys': 'M14 10a4 4 0 1 0-3.500 3.970L12 12.500h2V15h2v2h3v-2.500l-5.100-4.500',
  '/partner-apps': 'M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM17 14v6M14 17h6',
  '/usage': 'M4 20V10M10 20V4M16 20v-7M21 20H3',
  '/returns': 'M9 7 4 12l5 5M4.500 12H14a5 5 0 0 1 5 5v1',
  '/withdrawals': 'M6 3h9l4 4v14H6zM14 3v5h5M9 12l6 6M15 12l-6 6',
  '/destinations':
    'M12 21s7-6.200 7-11.500a7 7 0 1 0-14 0C5 14.800 12 21 12 21zM12 12a2.500 2.500 0 1 0-.01 0',
  '/policy': 'M7 3h10v18l-5-3-5 3zM10 8h4M10 12h4',
  '/settings': 'M4 7h8m4 0h4M4 17h4m4 0h8M14 5v4M10 15v4',
  '/commerce': 'M4 9l2-5h12l2 5M4 9v11h16V9M4 9h16M9 20v-6h6v6',
  '/team':
    'M9 11a3.500 3.500 0 1 0-.01 0M2.500 20a6.500 6.500 0 0 1 13 0M16 4.500a3.500 3.500 0 0 1 0 6.500M18 14a6.500 6.500 0 0 1 3.500 6',
  '/assistants':
    'M12 3v3M6 8h12a2 2 0 0 1 2 2v7a2 2 0 0 1-2 2H6a2 2 0 0 1-2-2v-7a2 2 0 0 1 2-2zM9 13v1M15 13v1',
  '/audit-log': 'M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h5',
};

type Area = (typeof GROUPS)[number]['areas'][number][0];

/** The areas whose first page the user may open. Groups without an area are left out. */
export function useAreas(): { title: string; areas: (readonly [Area, string])[] }[] {
  const { canCall } = useSession();
  const { routesByPath } = useRouter();
  return GROUPS.map(({ title, areas }) => ({
    title,
    areas: areas.filter(([to]) => canCall(routesByPath[to].options.staticData?.needs)),
  })).filter(({ areas }) => areas.length > 0);
}

/** Pages that belong to an area although their addresses do not begin with it. */
const PARTS: Readonly<Record<string, Area>> = {
  deliveries: '/webhooks',
  replays: '/webhooks',
};

function Navigation({ onNavigate }: { readonly onNavigate: () => void }) {
  const [, first = ''] = usePath().split('/');
  const current = PARTS[first] ?? `/${first}`;
  return useAreas().map(({ title, areas }) => (
    <div key={title} className={styles.group}>
      <Text size="xs" c="dimmed" fw={600} px="sm" mb={4}>
        {title}
      </Text>
      {areas.map(([to, name]) => (
        <Link
          key={to}
          to={to}
          onClick={onNavigate}
          className={styles.link ?? ''}
          activeProps={{ 'aria-current': 'page' }}
          aria-current={to === current ? 'page' : undefined}
        >
          <Icon strokes={ICONS[to]} />
          {name}
        </Link>
      ))}
    </div>
  ));
}

function Icon({ strokes }: { readonly strokes: string }) {
  return (
    <svg
      width="18"
      height="18"
      viewBox="0 0 24 24"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.8"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d={strokes} />
    </svg>
  );
}

/** The path below `/portal`. */
function usePath(): string {
  const path = useRouterState({ select: ({ location }) => location.pathname });
  return path.replace(/^\/portal(?=\/|$)/, '');
}

/** After a change of the page, the keyboard and the screen reader continue at its start. */
function useFocusOnNewPage() {
  const main = useRef<HTMLElement>(null);
  const path = usePath();
  const shown = useRef(path);
  useEffect(() => {
    if (shown.current !== path) {
      main.current?.focus({ preventScroll: true });
      closeUndos();
    }
    shown.current = path;
  }, [path]);
  return main;
}

/** The shop of the session; a menu when the user has several. */
function ShopSwitcher() {
  const { shop, shops } = useSession();
  const { run } = useWrite(SessionService.method.switchShop, {
    // The page starts again, so that nothing of the former shop is shown or called.
    onSuccess: () => {
      announceMove();
      leave('/portal/');
    },
  });
  if (shops.length < 2) return <span className={styles.name}>{shop.name}</span>;
  return (
    <ActionMenu
      label={shop.name}
      name={`Shop: ${shop.name}. Switch to another`}
      align="start"
      actions={shops.map(({ id, name, role, sandbox }) => ({
        key: id,
        title: `${name}${sandbox ? ' (sandbox)' : ''} · ${roleName(role)}`,
        current: id === shop.id,
        run: () => id !== shop.id && run({ shopId: id }),
      }))}
    />
  );
}

const SCHEMES = [
  ['auto', 'As the system'],
  ['light', 'Light'],
  ['dark', 'Dark'],
] as const;

const ZONES = [
  ['local', `Your zone (${localZoneName()})`],
  ['utc', 'UTC'],
] as const;

/** Who is signed in, the colours, the zone of times, the sessions, and the way out. */
function AccountMenu() {
  const { user, shop, links } = useSession();
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const navigate = useNavigate();
  const signOut = useWrite(SessionService.method.signOut, { onSuccess: () => leave() });
  const name = user.name === '' ? user.email : user.name;
  const docsUrl = links?.docsUrl ?? '';
  return (
    <ActionMenu
      label={name}
      name={`Account of ${name}`}
      head={
        <Text size="sm" px="sm" py="xs" component="div" style={{ overflowWrap: 'anywhere' }}>
          {user.email}
          <SecondLine>
            {roleName(shop.role)} of {shop.name}
          </SecondLine>
        </Text>
      }
      actions={[
        ...SCHEMES.map(([scheme, title], place) => ({
          key: scheme,
          title,
          current: scheme === colorScheme,
          run: () => setColorScheme(scheme),
          ...(place === 0 && { section: 'Colours' }),
        })),
        ...ZONES.map(([zone, title], place) => ({
          key: zone,
          title,
          current: zone === currentZone(),
          run: () => setZone(zone),
          ...(place === 0 && { section: 'Times' }),
        })),
        ...(docsUrl === ''
          ? []
          : [{ key: 'docs', title: 'API documentation', href: docsUrl, section: '' }]),
        {
          key: 'sessions',
          title: 'Your sessions',
          section: '',
          run: () => void navigate({ to: '/sessions' }),
        },
        { key: 'out', title: 'Sign out', run: () => signOut.run({}) },
      ]}
    />
  );
}

export function NotFound() {
  return (
    <>
      <PageHead title="Page not found" />
      <EmptyState
        title="There is no page at this address"
        action={
          <Button component={Link} to="/">
            Go to the first page
          </Button>
        }
      >
        The link may be old, or a part of it is missing.
      </EmptyState>
    </>
  );
}

/** A page that failed while it was drawn, or whose script could not be loaded after a new release. */
export function RouteError({ error }: { readonly error: unknown }) {
  return (
    <>
      <PageHead title="This page did not open" />
      <ErrorState error={error} retry={() => window.location.reload()} />
    </>
  );
}

/** A page that the user's role may not open. */
function NotAllowed() {
  return (
    <>
      <PageHead title="Not for your role" />
      <EmptyState title="Your role does not include this page">
        An owner or admin of your shop can change your role.{' '}
        <Link to="/team">What each role may do</Link>
      </EmptyState>
    </>
  );
}
