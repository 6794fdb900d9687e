import type { OperationId } from '../../services/contract/operation.ts';
import { type Permission, permits, ROLES, type Role } from '../tenancy/permissions.ts';

/** Something that people or systems do in a shop. */
export interface Right {
  /** The heading under which the table of roles shows it. */
  readonly group: string;
  /** A sentence without its full stop. */
  readonly text: string;
  /**
   * The permissions of members: each of them is enough. `everyMember` needs none. `owners`: only owners do it.
   * `systems`: only API keys and apps do it.
   */
  readonly permissions: readonly Permission[] | 'everyMember' | 'owners' | 'systems';
  /** The operations of the REST API that do it. */
  readonly rest?: readonly OperationId[];
}

/**
 * Who may do what. Each method of the portal and each tool of assistants names its right here, so that a role has the
 * same rights through every door. The order is that of the table of roles.
 */
export const RIGHTS = {
  seeReturns: {
    group: 'Returns',
    text: 'See returns and their customers',
    permissions: ['returns.view', 'returns.manage'],
    rest: [
      'listReturns',
      'getReturnDetails',
      'listEffects',
      'getReturnTimeline',
      'listExpected',
      'getEligibility',
    ],
  },
  submitReturns: {
    group: 'Returns',
    text: 'Submit a return for a shopper',
    permissions: ['returns.manage'],
    rest: ['submitReturn'],
  },
  processReturns: {
    group: 'Returns',
    text: 'Process a return: pays refunds, issues gift cards, places exchange orders',
    permissions: ['returns.process', 'returns.manage'],
    rest: ['processReturn'],
  },
  reviewReturns: {
    group: 'Returns',
    text: 'Flag, unflag and cancel a return, and add notes',
    permissions: ['returns.manage'],
    rest: ['cancelReturn'],
  },
  inspectGoods: {
    group: 'Returns',
    text: 'Record what arrived, and what becomes of the goods: grading and disposition',
    permissions: ['warehouse.disposition', 'returns.manage'],
    rest: ['assessDispositions', 'gradeItems', 'recordArrival'],
  },
  seePolicy: {
    group: 'Returns',
    text: 'See the policy: what the shop takes back, and how',
    permissions: ['returns.view', 'returns.manage', 'policy.manage'],
    rest: ['getPolicy'],
  },
  changePolicy: {
    group: 'Returns',
    text: 'Change the policy, and preview a change',
    permissions: ['policy.manage'],
  },
  seeFigures: {
    group: 'Returns',
    text: 'See counts of returns by state, outcome and reason',
    permissions: ['reports.view', 'returns.manage'],
  },
  seeFraudReports: {
    group: 'Returns',
    text: 'See fraud reports',
    permissions: ['fraud.view', 'returns.manage'],
  },
  reportFraud: {
    group: 'Returns',
    text: 'Report fraud',
    permissions: ['fraud.report', 'returns.manage'],
    rest: ['createFraudReport'],
  },
  createCarts: {
    group: 'Returns',
    text: 'Create a cart with exchange items, and read it',
    permissions: ['carts.create'],
    rest: ['createCart', 'getCart'],
  },
  reportLabels: {
    group: 'Returns',
    text: 'Report shipping labels, and where parcels are (label providers)',
    permissions: 'systems',
    rest: ['recordLabel', 'updateLabel'],
  },
  reportGiftCards: {
    group: 'Returns',
    text: 'Report gift cards that were issued (gift card providers)',
    permissions: 'systems',
    rest: ['recordGiftCard'],
  },
  seeDestinations: {
    group: 'Destinations',
    text: 'See destinations: the warehouses and other places that a return can go to',
    permissions: ['destinations.view', 'destinations.manage'],
    rest: ['listDestinations', 'getDestination'],
  },
  changeDestinations: {
    group: 'Destinations',
    text: 'Change destinations, and add them in the portal',
    permissions: ['destinations.manage'],
    rest: ['updateDestination'],
  },
  seeWebhooks: {
    group: 'Webhooks',
    text: 'See webhooks, their health and their replays',
    permissions: ['developer.view', 'developer.manage'],
    rest: ['listWebhooks', 'getWebhook', 'previewReplay', 'listReplays', 'getReplay'],
  },
  sendDeliveries: {
    group: 'Webhooks',
    text: 'See deliveries with their payloads, and send them again',
    permissions: ['developer.manage'],
    rest: ['listDeliveries', 'retryDeliveries', 'replayDelivery', 'startReplay', 'cancelReplay'],
  },
  changeWebhooks: {
    group: 'Webhooks',
    text: 'Create, change, test and delete webhooks, and rotate their secrets',
    permissions: ['developer.manage'],
    rest: [
      'createWebhook',
      'updateWebhook',
      'deleteWebhook',
      'rotateWebhookSecret',
      'endEarlierSecrets',
      'testWebhook',
    ],
  },
  seeSecrets: {
    group: 'Webhooks',
    text: 'See the signing secrets of webhooks',
    permissions: ['developer.manage'],
    rest: ['getWebhookSecret'],
  },
  setPayloadVersion: {
    group: 'Webhooks',
    text: 'Preview and set the API version of payloads',
    permissions: ['developer.manage'],
  },
  seeDevelopers: {
    group: 'Developers',
    text: 'See API keys, partner apps and who calls which version',
    permissions: ['developer.view', 'developer.manage'],
  },
  changeDevelopers: {
    group: 'Developers',
    text: 'Create, rotate and revoke API keys, and remove partner apps',
    permissions: ['developer.manage'],
  },
  allowAppScopes: {
    group: 'Developers',
    text: 'Allow what a partner app asks for beyond the rights of the member who connected it',
    permissions: 'owners',
  },
  approveKeys: {
    group: 'Developers',
    text: 'Approve or reject an API key that may do more than the member who made it',
    permissions: 'owners',
  },
  manageTeam: {
    group: 'Team',
    text: 'See the members, invite people, change and remove members',
    permissions: ['team.manage'],
  },
  seeAuditLog: {
    group: 'Team',
    text: 'See and export the audit log',
    permissions: ['team.manage'],
  },
  changeSettings: {
    group: 'Shop',
    text: 'See and change the settings of the shop: stock, gift cards, labels, expiry, parcel',
    permissions: ['shop.manage'],
  },
  connectPlatform: {
    group: 'Shop',
    text: 'Connect the shop to its commerce platform, check and end the connection',
    permissions: ['shop.manage'],
  },
  ownAssistants: {
    group: 'Everybody',
    text: 'See and disconnect own assistants (those of all members with team.manage)',
    permissions: 'everyMember',
  },
  ownSession: {
    group: 'Everybody',
    text: 'See the shop and the roles, switch the shop, end own sessions',
    permissions: 'everyMember',
  },
} as const satisfies Readonly<Record<string, Right>>;

export type RightName = keyof typeof RIGHTS;

/** The permissions of a right; a member needs one of them. Empty when no permission decides. */
export function permissionsFor(name: RightName): readonly Permission[] {
  const { permissions }: Right = RIGHTS[name];
  return typeof permissions === 'string' ? [] : permissions;
}

/** Whether a member with this role has the right. */
export function hasRight(role: Role, name: RightName): boolean {
  const { permissions }: Right = RIGHTS[name];
  if (permissions === 'owners') return role === 'owner';
  if (typeof permissions === 'string') return permissions === 'everyMember';
  return permits(role, permissions);
}

/** The roles that have the right. */
export function rolesWith(name: RightName): Role[] {
  return ROLES.filter((role) => hasRight(role, name));
}
