import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent as lazy,
  Navigate,
  type RouteComponent,
} from '@tanstack/react-router';
import { Frame, NotFound, RouteError, useAreas } from './frame/frame.tsx';
import { known, parseSearch, stringifySearch } from './search.ts';

const root = createRootRoute({
  component: Frame,
  notFoundComponent: NotFound,
  errorComponent: RouteError,
});

/**
 * A page inside the frame.
 *
 * @param needs the method that it calls first, as a text, so that the first script does not contain the messages of every
 * page. The frame shows the page only to users who may call it.
 * @param search the names that its address may have.
 */
function page<P extends string, S extends string = never>(
  path: P,
  needs: string | undefined,
  component: RouteComponent,
  ...search: readonly S[]
) {
  return createRoute({
    getParentRoute: () => root,
    path,
    component,
    validateSearch: known(...search),
    staticData: { needs },
  });
}

/** The first page of a user: the webhooks, or the returns for those who have none. */
function Home() {
  const [first] = useAreas().flatMap(({ areas }) => areas);
  return <Navigate to={first?.[0] ?? '/team'} replace />;
}

export const router = createRouter({
  routeTree: root.addChildren([
    page('/', undefined, Home),
    page(
      '/webhooks',
      'WebhooksService/ListSubscriptions',
      lazy(() => import('./pages/webhooks/list.tsx'), 'WebhooksPage'),
      'hours',
    ),
    page(
      '/webhooks/$webhookId',
      'WebhooksService/GetSubscription',
      lazy(() => import('./pages/webhooks/one.tsx'), 'WebhookPage'),
      'hours',
    ),
    page(
      '/deliveries',
      'WebhooksService/ListDeliveries',
      lazy(() => import('./pages/deliveries/list.tsx'), 'DeliveriesPage'),
      ...(['q', 'webhook', 'state', 'trigger', 'topic', 'return', 'replay', 'from', 'to'] as const),
    ),
    page(
      '/deliveries/$deliveryId',
      'WebhooksService/GetDelivery',
      lazy(() => import('./pages/deliveries/one.tsx'), 'DeliveryPage'),
    ),
    page(
      '/replays',
      'WebhooksService/ListReplays',
      lazy(() => import('./pages/replays/list.tsx'), 'ReplaysPage'),
      'webhook',
    ),
    page(
      '/replays/$replayId',
      'WebhooksService/GetReplay',
      lazy(() => import('./pages/replays/one.tsx'), 'ReplayPage'),
    ),
    page(
      '/returns',
      'ReturnsService/SearchReturns',
      lazy(() => import('./pages/returns/list.tsx'), 'ReturnsPage'),
      ...(['q', 'state', 'mark', 'label', 'outcome', 'from', 'to', 'destination'] as const),
    ),
    page(
      '/returns/$returnId',
      'ReturnsService/FindReturn',
      lazy(() => import('./pages/returns/one.tsx'), 'ReturnPage'),
    ),
    page(
      '/withdrawals',
      'ReturnsService/ListWithdrawals',
      lazy(() => import('./pages/returns/withdrawals.tsx'), 'WithdrawalsPage'),
    ),
    page(
      '/payload-version',
      'PayloadsService/GetPayloadVersion',
      lazy(() => import('./pages/payload-version/page.tsx'), 'PayloadVersionPage'),
      ...(['event', 'topic', 'from', 'to', 'all', 'since'] as const),
    ),
    page(
      '/api-keys',
      'ApiKeysService/ListApiKeys',
      lazy(() => import('./pages/keys/api-keys.tsx'), 'ApiKeysPage'),
    ),
    page(
      '/partner-apps',
      'AppsService/ListApps',
      lazy(() => import('./pages/keys/partner-apps.tsx'), 'PartnerAppsPage'),
    ),
    page(
      '/usage',
      'UsageService/ListVersionUsage',
      lazy(() => import('./pages/keys/usage.tsx'), 'UsagePage'),
    ),
    page(
      '/destinations',
      'DestinationsService/ListDestinations',
      lazy(() => import('./pages/shop/destinations.tsx'), 'DestinationsPage'),
      ...(['q', 'show', 'edit'] as const),
    ),
    page(
      '/policy',
      'ReturnsService/GetPolicy',
      lazy(() => import('./pages/policy/page.tsx'), 'PolicyPage'),
    ),
    page(
      '/settings',
      'ReturnsService/GetSettings',
      lazy(() => import('./pages/setup/settings.tsx'), 'SettingsPage'),
    ),
    page(
      '/commerce',
      'CommerceService/GetConnection',
      lazy(() => import('./pages/setup/commerce.tsx'), 'CommercePage'),
    ),
    page(
      '/team',
      'TeamService/ListRoles',
      lazy(() => import('./pages/shop/team.tsx'), 'TeamPage'),
    ),
    page(
      '/assistants',
      'AssistantsService/ListAssistants',
      lazy(() => import('./pages/shop/assistants.tsx'), 'AssistantsPage'),
    ),
    page(
      '/audit-log',
      'AuditService/ListAuditEntries',
      lazy(() => import('./pages/shop/audit-log.tsx'), 'AuditLogPage'),
      ...(['q', 'return', 'from', 'to', 'actor', 'thing', 'action'] as const),
    ),
    page(
      '/sessions',
      undefined,
      lazy(() => import('./pages/shop/sessions.tsx'), 'SessionsPage'),
    ),
  ]),
  basepath: '/portal',
  parseSearch,
  stringifySearch,
  defaultPreload: 'intent',
  scrollRestoration: true,
});

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router;
  }
  interface StaticDataRouteOption {
    /** The method that a user must be allowed to call to see the page. */
    readonly needs?: string | undefined;
  }
}
