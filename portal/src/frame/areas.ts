import type { CurrentSession } from '../session/session.tsx';

/** The areas of the portal in the order of the navigation, each with the method that its first page calls. The names are
 * texts, so that the first script does not contain the messages of every page. */
const GROUPS = [
  {
    title: 'Integration',
    areas: [
      {
        to: '/webhooks',
        title: 'Webhooks',
        icon: 'webhooks',
        needs: 'WebhooksService/ListWebhooks',
      },
      {
        to: '/payload-version',
        title: 'Payload version',
        icon: 'version',
        needs: 'PayloadVersionService/GetPayloadVersion',
      },
      { to: '/api-keys', title: 'API keys', icon: 'keys', needs: 'ApiKeysService/ListApiKeys' },
      { to: '/partner-apps', title: 'Partner apps', icon: 'apps', needs: 'AppsService/ListApps' },
      {
        to: '/usage',
        title: 'Who calls which version',
        icon: 'usage',
        needs: 'UsageService/ListVersionUsage',
      },
    ],
  },
  {
    title: 'Goods',
    areas: [
      { to: '/returns', title: 'Returns', icon: 'returns', needs: 'ReturnsService/ListReturns' },
      {
        to: '/destinations',
        title: 'Destinations',
        icon: 'destinations',
        needs: 'DestinationsService/ListDestinations',
      },
    ],
  },
  {
    title: 'Shop',
    areas: [
      { to: '/team', title: 'Team and roles', icon: 'team', needs: 'TeamService/ListRoles' },
      {
        to: '/assistants',
        title: 'Connected assistants',
        icon: 'assistants',
        needs: 'AssistantsService/ListAssistants',
      },
      {
        to: '/audit-log',
        title: 'Audit log',
        icon: 'audit',
        needs: 'AuditService/ListAuditEntries',
      },
    ],
  },
] as const;

export type Area = (typeof GROUPS)[number]['areas'][number];

/** Pages that belong to an area although their addresses do not begin with it. */
const PARTS: Readonly<Record<string, Area['to']>> = {
  '/deliveries': '/webhooks',
  '/replays': '/webhooks',
};

/** The area to which a path of the page belongs. */
export function areaOf(path: string): string {
  const first = `/${path.split('/')[1] ?? ''}`;
  return PARTS[first] ?? first;
}

/** Whether the user may open the page at a path. Checked before the page makes its first call. */
export function mayOpen({ canCall }: CurrentSession, path: string): boolean {
  const area = GROUPS.flatMap(({ areas }) => [...areas]).find(({ to }) => to === areaOf(path));
  return area === undefined || canCall(area.needs);
}

/** The areas that the user may open. Groups without an area are left out. */
export function areasOf({ canCall }: CurrentSession): { title: string; areas: readonly Area[] }[] {
  return GROUPS.map(({ title, areas }) => ({
    title,
    areas: areas.filter(({ needs }) => canCall(needs)),
  })).filter(({ areas }) => areas.length > 0);
}

/** The first page of a user: the webhooks, or the returns for those who have none. */
export function firstArea(session: CurrentSession): Area['to'] {
  const all = areasOf(session).flatMap(({ areas }) => areas);
  const [first] = all;
  return first?.to ?? '/team';
}
