import type { CommerceService } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import type { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import type { Doors, DoorsOf } from './door.ts';

const INTERNAL: Doors = { rest: 'internal', mcp: 'internal', admin: 'internal' };
const OF_SHOPPERS: Doors = { rest: 'shopper', mcp: 'shopper', admin: 'shopper' };
/** The networks of warehouses and the payments service are internal services. */
const OF_INTERNAL_SERVICES: Doors = { rest: 'internal', mcp: 'internal', admin: 'acting' };

export const RETURNS_DOORS: DoorsOf<typeof ReturnsService> = {
  submitReturn: { rest: 'shopper', mcp: 'shopper', admin: ['import'] },
  editReturn: OF_SHOPPERS,
  flagReturn: { rest: 'person', mcp: ['flag_return'], admin: 'acting' },
  unflagReturn: { rest: 'person', mcp: ['unflag_return'], admin: 'acting' },
  cancelReturn: { rest: 'person', mcp: ['cancel_return'], admin: 'acting' },
  processReturn: { rest: ['processReturn'], mcp: ['process_return'], admin: 'acting' },
  checkReturn: { rest: 'covered', mcp: 'covered', admin: 'reading' },
  recordLabel: { rest: ['recordLabel'], mcp: 'partner', admin: 'acting' },
  recordGiftCard: { rest: ['recordGiftCard'], mcp: 'partner', admin: 'acting' },
  updateLabel: { rest: ['updateLabel'], mcp: 'partner', admin: 'acting' },
  requestLabel: OF_SHOPPERS,
  cancelLabelRequest: OF_SHOPPERS,
  recordArrival: OF_INTERNAL_SERVICES,
  recordPartnerShipment: OF_INTERNAL_SERVICES,
  openInstantRefund: OF_INTERNAL_SERVICES,
  settleInstantRefund: OF_INTERNAL_SERVICES,
  addCustomerUpload: OF_SHOPPERS,
  addNote: { rest: 'person', mcp: ['add_return_note'], admin: 'acting' },
  redactCustomer: { rest: 'privacy', mcp: 'privacy', admin: 'privacy' },
  getReturns: { rest: 'covered', mcp: 'covered', admin: 'reading' },
  getSnapshot: INTERNAL,
  readEvents: INTERNAL,
  countEvents: INTERNAL,
  findReturn: { rest: ['getReturnDetails'], mcp: ['get_return'], admin: 'reading' },
  findReturns: { rest: 'covered', mcp: 'covered', admin: 'reading' },
  searchReturns: { rest: ['listReturns'], mcp: ['search_returns'], admin: 'reading' },
  getTimeline: { rest: 'none', mcp: ['get_return_timeline'], admin: 'reading' },
  summarize: { rest: 'none', mcp: ['get_returns_summary'], admin: 'reading' },
  checkLineItems: INTERNAL,
  getSettings: { rest: 'operator', mcp: 'operator', admin: ['shop restock'] },
  updateSettings: {
    rest: 'operator',
    mcp: 'operator',
    admin: ['shop create', 'shop sandbox', 'shop restock'],
  },
  applyAssessments: INTERNAL,
  applyGradings: INTERNAL,
  sweepExpired: INTERNAL,
};

const OF_OPERATORS = { rest: 'operator', mcp: 'operator' } as const;
const OF_MONEY = { rest: 'money', mcp: 'money' } as const;

export const COMMERCE_DOORS: DoorsOf<typeof CommerceService> = {
  connect: { ...OF_OPERATORS, admin: ['commerce connect'] },
  getConnection: { ...OF_OPERATORS, admin: ['commerce show'] },
  rotateSecret: { ...OF_OPERATORS, admin: ['commerce rotate'] },
  disconnect: { ...OF_OPERATORS, admin: ['commerce disconnect'] },
  runCheck: { ...OF_OPERATORS, admin: ['commerce check'] },
  reconcile: { ...OF_MONEY, admin: ['reconcile'] },
  listEffects: { rest: ['listEffects'], mcp: 'none', admin: ['commerce effects'] },
  findOrder: { ...OF_OPERATORS, admin: ['commerce order'] },
  settleEffect: { ...OF_MONEY, admin: ['commerce settle'] },
  createShopifyInstallLink: { ...OF_OPERATORS, admin: ['commerce shopify install-link'] },
  beginShopifyInstall: { rest: 'browser', mcp: 'browser', admin: 'browser' },
  completeShopifyInstall: { rest: 'browser', mcp: 'browser', admin: 'browser' },
  receiveShopifyWebhook: { rest: 'provider', mcp: 'provider', admin: 'provider' },
  listShopifyDataRequests: { ...OF_OPERATORS, admin: ['commerce shopify data-requests'] },
  receiveEvent: { rest: 'provider', mcp: 'provider', admin: 'provider' },
};
