import type { MessageInitShape } from '@bufbuild/protobuf';
import type { RoleActionSchema } from '../../proto/gen/rms/portal/v1/team_pb.ts';
import type { OperationId } from '../../services/contract/operation.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { type ActionName, permissionsFor } from '../actions/permissions.ts';
import { permits, ROLES, type Role } from '../tenancy/permissions.ts';
import { accessOf, mayCall } from './access.ts';
import { PORTAL_METHODS } from './all-services.ts';

/** Who each role is for. */
export const ROLE_TEXTS: Readonly<Record<Role, string>> = {
  owner:
    'For the person who answers for the shop: may do everything, and only an owner changes owners.',
  admin: 'For managers: may do everything except changes of owners.',
  returns_agent:
    'For customer service: looks into returns, decides flagged ones and processes returns.',
  warehouse: 'For people who receive parcels: sees returns and records what becomes of the goods.',
  analyst:
    'For people who only look: sees returns, fraud reports and summaries, and changes nothing.',
  developer: 'For engineers who connect systems: webhooks, API keys, apps.',
};

/**
 * Something that people do, with its doors. The roles follow from the portal's methods, or else from the actions of
 * assistants. A row that has neither is for systems only.
 */
interface Row {
  readonly group: string;
  /** Also the words of scopes: `scope-text.ts`. */
  readonly description: string;
  /** Methods of the portal; all have the same permissions. */
  readonly portal?: readonly string[];
  readonly mcp?: readonly ActionName[];
  readonly rest?: readonly OperationId[];
}

/** In the order to show it. A test checks that every method, every tool and every operation is in one row. */
export const ROLE_TABLE: readonly Row[] = [
  {
    group: 'Returns',
    description: 'See returns and their customers',
    portal: [
      'ReturnsService/ListReturns',
      'ReturnsService/GetReturn',
      'ReturnsService/ListTimeline',
    ],
    mcp: ['search_returns', 'get_return', 'get_return_timeline'],
    rest: ['listReturns', 'getReturnDetails', 'listEffects'],
  },
  {
    group: 'Returns',
    description: 'Process a return: pays refunds, issues gift cards, places exchange orders',
    portal: ['ReturnsService/ProcessReturn'],
    mcp: ['process_return'],
    rest: ['processReturn'],
  },
  {
    group: 'Returns',
    description: 'Flag, unflag and cancel a return, and add notes',
    portal: [
      'ReturnsService/FlagReturn',
      'ReturnsService/UnflagReturn',
      'ReturnsService/CancelReturn',
      'ReturnsService/AddNote',
    ],
    mcp: ['flag_return', 'unflag_return', 'cancel_return', 'add_return_note'],
  },
  {
    group: 'Returns',
    description: 'Record what becomes of the goods: grading and disposition',
    portal: ['ReturnsService/GradeItems', 'ReturnsService/RecordDispositions'],
    mcp: ['record_dispositions'],
    rest: ['assessDispositions', 'gradeItems'],
  },
  {
    group: 'Returns',
    description: 'See counts of returns by state, outcome and reason',
    mcp: ['get_returns_summary'],
  },
  {
    group: 'Returns',
    description: 'See fraud reports',
    portal: ['ReturnsService/GetFraudReport'],
    mcp: ['get_fraud_report'],
  },
  {
    group: 'Returns',
    description: 'Report fraud',
    portal: ['ReturnsService/ListFraudCategories', 'ReturnsService/CreateFraudReport'],
    mcp: ['list_fraud_categories', 'create_fraud_report'],
    rest: ['createFraudReport'],
  },
  {
    group: 'Returns',
    description: 'Create a cart with exchange items, and read it',
    mcp: ['create_cart'],
    rest: ['createCart', 'getCart'],
  },
  {
    group: 'Returns',
    description: 'Report shipping labels, and where parcels are (label providers)',
    rest: ['recordLabel', 'updateLabel'],
  },
  {
    group: 'Returns',
    description: 'Report gift cards that were issued (gift card providers)',
    rest: ['recordGiftCard'],
  },
  {
    group: 'Destinations',
    description: 'See destinations: the warehouses and other places that a return can go to',
    portal: ['DestinationsService/ListDestinations', 'DestinationsService/GetDestination'],
    mcp: ['list_destinations'],
    rest: ['listDestinations', 'getDestination'],
  },
  {
    group: 'Destinations',
    description: 'Change destinations, and add them in the portal',
    portal: ['DestinationsService/CreateDestination', 'DestinationsService/UpdateDestination'],
    mcp: ['update_destination'],
    rest: ['updateDestination'],
  },
  {
    group: 'Webhooks',
    description: 'See webhooks, their health and their replays',
    portal: [
      'WebhooksService/ListWebhooks',
      'WebhooksService/GetWebhook',
      'WebhooksService/ListEventTypes',
      'WebhooksService/GetDeliveryStats',
      'WebhooksService/PreviewReplay',
      'WebhooksService/PreviewBackfill',
      'WebhooksService/GetReplay',
      'WebhooksService/ListReplays',
      'PayloadVersionService/GetPayloadVersion',
    ],
    mcp: ['list_webhooks', 'preview_webhook_replay', 'list_webhook_replays'],
    rest: ['listWebhooks', 'getWebhook', 'previewReplay', 'listReplays', 'getReplay'],
  },
  {
    group: 'Webhooks',
    description: 'See deliveries with their payloads, and send them again',
    portal: [
      'WebhooksService/ListDeliveries',
      'WebhooksService/GetDelivery',
      'WebhooksService/RetryDeliveries',
      'WebhooksService/ReplayDelivery',
      'WebhooksService/StartReplay',
      'WebhooksService/StartBackfill',
      'WebhooksService/StopReplay',
    ],
    mcp: [
      'list_webhook_deliveries',
      'replay_webhook_delivery',
      'start_webhook_replay',
      'cancel_webhook_replay',
    ],
    rest: ['listDeliveries', 'retryDeliveries', 'replayDelivery', 'startReplay', 'cancelReplay'],
  },
  {
    group: 'Webhooks',
    description: 'Create, change, test and delete webhooks, and rotate their secrets',
    portal: [
      'WebhooksService/CreateWebhook',
      'WebhooksService/UpdateWebhook',
      'WebhooksService/DeleteWebhook',
      'WebhooksService/RotateSecret',
      'WebhooksService/EndEarlierSecrets',
      'WebhooksService/SendTest',
    ],
    mcp: ['create_webhook', 'update_webhook', 'rotate_webhook_secret', 'test_webhook'],
    rest: [
      ...(['createWebhook', 'updateWebhook', 'deleteWebhook', 'rotateWebhookSecret'] as const),
      ...(['endEarlierSecrets', 'testWebhook'] as const),
    ],
  },
  {
    group: 'Webhooks',
    description: 'See the signing secrets of webhooks',
    portal: ['WebhooksService/RevealSecret'],
    rest: ['getWebhookSecret'],
  },
  {
    group: 'Webhooks',
    description: 'Preview and set the API version of payloads',
    portal: [
      'PayloadVersionService/SetPayloadVersion',
      'PayloadVersionService/ListRecentEvents',
      'PayloadVersionService/PreviewPayload',
      'PayloadVersionService/ListVersionTests',
      'PayloadVersionService/SendVersionTest',
    ],
  },
  {
    group: 'Developers',
    description: 'See API keys, partner apps and who calls which version',
    portal: [
      'ApiKeysService/ListApiKeys',
      'ApiKeysService/ListScopes',
      'AppsService/ListApps',
      'AppsService/ListRemovedApps',
      'UsageService/ListVersionUsage',
    ],
  },
  {
    group: 'Developers',
    description: 'Create, rotate and revoke API keys, and remove partner apps',
    portal: [
      'ApiKeysService/CreateApiKey',
      'ApiKeysService/RotateApiKey',
      'ApiKeysService/RevokeApiKey',
      'AppsService/RemoveApp',
    ],
  },
  {
    group: 'Team',
    description: 'See the members, and add, change and remove them',
    portal: [
      'TeamService/ListMembers',
      'TeamService/AddMember',
      'TeamService/ChangeRole',
      'TeamService/RemoveMember',
    ],
  },
  {
    group: 'Team',
    description: 'See and export the audit log',
    portal: [
      'AuditService/ListAuditEntries',
      'AuditService/ListAuditChoices',
      'AuditService/ExportAuditEntries',
    ],
  },
  {
    group: 'Everybody',
    description: 'See and disconnect own assistants (those of all members with team.manage)',
    portal: [
      'AssistantsService/ListAssistants',
      'AssistantsService/ListEndedAssistants',
      'AssistantsService/DisconnectAssistant',
    ],
    mcp: ['list_assistants', 'disconnect_assistant'],
  },
  {
    group: 'Everybody',
    description: 'See the shop and the roles, switch the shop, end own sessions',
    portal: [
      'TeamService/ListRoles',
      'SessionService/GetSession',
      'SessionService/SwitchShop',
      'SessionService/ListSessions',
      'SessionService/EndSession',
      'SessionService/SignOut',
      'SessionService/SignOutEverywhere',
    ],
    mcp: ['get_shop_context'],
  },
];

/** The table with the roles that may do each thing. */
export function roleActions(): MessageInitShape<typeof RoleActionSchema>[] {
  return ROLE_TABLE.map((row) => {
    const { group, description, portal = [], mcp = [], rest = [] } = row;
    const operations = OPERATIONS.filter(({ id }) => rest.includes(id));
    return {
      group,
      description,
      portal: [...portal],
      mcp: [...mcp],
      ...rightsOf(row),
      rest: operations.map(({ method: verb, path }) => `${verb} ${path}`),
      scope: [...new Set(operations.map(({ scope }) => scope))].join(' or '),
    };
  });
}

/** Who may do it: by the first method of the portal, or by the first action of assistants. */
function rightsOf({ portal = [], mcp = [] }: Row): { permissions: string[]; roles: Role[] } {
  const [name] = portal;
  if (name !== undefined) {
    const method = methodNamed(name);
    const permissions = accessOf(method)?.anyOf ?? [];
    return { permissions, roles: ROLES.filter((role) => mayCall(role, method)) };
  }
  const [action] = mcp;
  if (action === undefined) return { permissions: [], roles: [] };
  const permissions = permissionsFor(action);
  return {
    permissions: [...permissions],
    roles: ROLES.filter((role) => permits(role, permissions)),
  };
}

/** @param name such as `ReturnsService/GetReturn`. @throws Error for an unknown name, which is a bug. */
export function methodNamed(name: string) {
  const found = PORTAL_METHODS.find(({ parent, name: own }) => `${parent.name}/${own}` === name);
  if (!found) throw new Error(`the portal has no method ${name}`);
  return found;
}
