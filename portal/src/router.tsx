import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Navigate,
} from '@tanstack/react-router';
import { firstArea } from './frame/areas.ts';
import { Frame } from './frame/frame.tsx';
import { NotFound, RouteError } from './frame/problems.tsx';
import { known, parseSearch, stringifySearch } from './search.ts';
import { useSession } from './session/session.tsx';

const root = createRootRoute({
  component: Frame,
  notFoundComponent: NotFound,
  errorComponent: RouteError,
});

const home = createRoute({ getParentRoute: () => root, path: '/', component: Home });

function Home() {
  return <Navigate to={firstArea(useSession())} replace />;
}

const webhooks = createRoute({
  getParentRoute: () => root,
  path: '/webhooks',
  validateSearch: known('hours'),
  component: lazyRouteComponent(() => import('./pages/webhooks/list.tsx'), 'WebhooksPage'),
});

const webhook = createRoute({
  getParentRoute: () => root,
  path: '/webhooks/$webhookId',
  validateSearch: known('hours'),
  component: lazyRouteComponent(() => import('./pages/webhooks/one.tsx'), 'WebhookPage'),
});

const deliveries = createRoute({
  getParentRoute: () => root,
  path: '/deliveries',
  validateSearch: known(
    'q',
    'webhook',
    'state',
    'trigger',
    'topic',
    'return',
    'replay',
    'from',
    'to',
  ),
  component: lazyRouteComponent(() => import('./pages/deliveries/list.tsx'), 'DeliveriesPage'),
});

const delivery = createRoute({
  getParentRoute: () => root,
  path: '/deliveries/$deliveryId',
  component: lazyRouteComponent(() => import('./pages/deliveries/one.tsx'), 'DeliveryPage'),
});

const replays = createRoute({
  getParentRoute: () => root,
  path: '/replays',
  validateSearch: known('webhook'),
  component: lazyRouteComponent(() => import('./pages/replays/list.tsx'), 'ReplaysPage'),
});

const replay = createRoute({
  getParentRoute: () => root,
  path: '/replays/$replayId',
  component: lazyRouteComponent(() => import('./pages/replays/one.tsx'), 'ReplayPage'),
});

const returns = createRoute({
  getParentRoute: () => root,
  path: '/returns',
  validateSearch: known('q', 'state', 'mark', 'label', 'outcome', 'from', 'to', 'destination'),
  component: lazyRouteComponent(() => import('./pages/returns/list.tsx'), 'ReturnsPage'),
});

const oneReturn = createRoute({
  getParentRoute: () => root,
  path: '/returns/$returnId',
  component: lazyRouteComponent(() => import('./pages/returns/one.tsx'), 'ReturnPage'),
});

const payloadVersion = createRoute({
  getParentRoute: () => root,
  path: '/payload-version',
  validateSearch: known('event', 'topic', 'from', 'to', 'all', 'since'),
  component: lazyRouteComponent(
    () => import('./pages/payload-version/page.tsx'),
    'PayloadVersionPage',
  ),
});

const apiKeys = createRoute({
  getParentRoute: () => root,
  path: '/api-keys',
  component: lazyRouteComponent(() => import('./pages/keys/api-keys.tsx'), 'ApiKeysPage'),
});

const partnerApps = createRoute({
  getParentRoute: () => root,
  path: '/partner-apps',
  component: lazyRouteComponent(() => import('./pages/keys/partner-apps.tsx'), 'PartnerAppsPage'),
});

const usage = createRoute({
  getParentRoute: () => root,
  path: '/usage',
  component: lazyRouteComponent(() => import('./pages/keys/usage.tsx'), 'UsagePage'),
});

const destinations = createRoute({
  getParentRoute: () => root,
  path: '/destinations',
  validateSearch: known('q', 'show', 'edit'),
  component: lazyRouteComponent(() => import('./pages/shop/destinations.tsx'), 'DestinationsPage'),
});

const team = createRoute({
  getParentRoute: () => root,
  path: '/team',
  component: lazyRouteComponent(() => import('./pages/shop/team.tsx'), 'TeamPage'),
});

const assistants = createRoute({
  getParentRoute: () => root,
  path: '/assistants',
  component: lazyRouteComponent(() => import('./pages/shop/assistants.tsx'), 'AssistantsPage'),
});

const auditLog = createRoute({
  getParentRoute: () => root,
  path: '/audit-log',
  validateSearch: known('q', 'return', 'from', 'to', 'actor', 'action'),
  component: lazyRouteComponent(() => import('./pages/shop/audit-log.tsx'), 'AuditLogPage'),
});

const sessions = createRoute({
  getParentRoute: () => root,
  path: '/sessions',
  component: lazyRouteComponent(() => import('./pages/shop/sessions.tsx'), 'SessionsPage'),
});

export const router = createRouter({
  routeTree: root.addChildren([
    home,
    webhooks,
    webhook,
    deliveries,
    delivery,
    replays,
    replay,
    returns,
    oneReturn,
    payloadVersion,
    apiKeys,
    partnerApps,
    usage,
    destinations,
    team,
    assistants,
    auditLog,
    sessions,
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
}
