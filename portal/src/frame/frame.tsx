import { Badge, Text } from '@mantine/core';
import { Link, Outlet, useRouterState } from '@tanstack/react-router';
import { useEffect, useRef, useState } from 'react';
import { closeUndos } from '../parts/notify.ts';
import { useSession } from '../session/session.tsx';
import { AccountMenu } from './account-menu.tsx';
import { areaOf, areasOf, mayOpen } from './areas.ts';
import styles from './frame.module.css';
import { Icon } from './icons.tsx';
import { NotAllowed } from './problems.tsx';
import { ShopSwitcher } from './shop-switcher.tsx';

/** What is around every page: the navigation, the shop, the account. */
export function Frame() {
  const session = useSession();
  const { shop } = session;
  const path = usePath();
  const [opened, setOpened] = useState(false);
  const main = useFocusOnNewPage();
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
          <Icon name={opened ? 'close' : 'menu'} />
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
        {mayOpen(session, path) ? <Outlet /> : <NotAllowed />}
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

function Navigation({ onNavigate }: { readonly onNavigate: () => void }) {
  const session = useSession();
  const current = areaOf(usePath());
  return (
    <>
      {areasOf(session).map(({ title, areas }) => (
        <div key={title} className={styles.group}>
          <Text size="xs" c="dimmed" fw={600} px="sm" mb={4}>
            {title}
          </Text>
          {areas.map((area) => (
            <Link
              key={area.to}
              to={area.to}
              onClick={onNavigate}
              className={styles.link ?? ''}
              activeProps={{ 'aria-current': 'page' }}
              aria-current={area.to === current ? 'page' : undefined}
            >
              <Icon name={area.icon} />
              {area.title}
            </Link>
          ))}
        </div>
      ))}
    </>
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
  const path = useRouterState({ select: ({ location }) => location.pathname });
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
