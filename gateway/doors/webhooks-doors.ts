import type { WebhooksService } from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import type { DoorsOf } from './door.ts';

export const WEBHOOKS_DOORS: DoorsOf<typeof WebhooksService> = {
  createSubscription: { rest: ['createWebhook'], mcp: ['create_webhook'], admin: 'acting' },
  updateSubscription: { rest: ['updateWebhook'], mcp: ['update_webhook'], admin: 'acting' },
  deleteSubscription: { rest: ['deleteWebhook'], mcp: 'covered', admin: 'acting' },
  listSubscriptions: { rest: ['listWebhooks'], mcp: ['list_webhooks'], admin: 'reading' },
  getSubscription: { rest: ['getWebhook'], mcp: 'covered', admin: 'reading' },
  revealSecret: { rest: ['getWebhookSecret'], mcp: 'secret', admin: 'secret' },
  rotateSecret: {
    rest: ['rotateWebhookSecret'],
    mcp: ['rotate_webhook_secret'],
    admin: 'secret',
  },
  endFormerSecrets: { rest: ['endEarlierSecrets'], mcp: 'heavy', admin: 'acting' },
  listDeliveries: { rest: ['listDeliveries'], mcp: ['list_webhook_deliveries'], admin: 'reading' },
  getDeliveryStats: { rest: 'page', mcp: 'page', admin: 'reading' },
  getDelivery: { rest: 'covered', mcp: 'covered', admin: 'reading' },
  retryDeliveries: { rest: ['retryDeliveries'], mcp: 'heavy', admin: 'acting' },
  replayDelivery: { rest: ['replayDelivery'], mcp: ['replay_webhook_delivery'], admin: 'acting' },
  previewReplay: { rest: ['previewReplay'], mcp: ['preview_webhook_replay'], admin: 'acting' },
  startReplay: { rest: ['startReplay'], mcp: ['start_webhook_replay'], admin: 'acting' },
  previewBackfill: { rest: ['previewReplay'], mcp: ['preview_webhook_replay'], admin: 'acting' },
  startBackfill: { rest: ['startReplay'], mcp: ['start_webhook_replay'], admin: 'acting' },
  getReplay: { rest: ['getReplay'], mcp: ['list_webhook_replays'], admin: 'reading' },
  listReplays: { rest: ['listReplays'], mcp: ['list_webhook_replays'], admin: 'reading' },
  cancelReplay: { rest: ['cancelReplay'], mcp: ['cancel_webhook_replay'], admin: 'acting' },
  listLastTests: { rest: 'covered', mcp: 'covered', admin: 'reading' },
  sendTest: { rest: ['testWebhook'], mcp: ['test_webhook'], admin: 'acting' },
  getPayloadVersion: {
    rest: 'covered',
    mcp: ['list_webhooks'],
    admin: ['payload-version show'],
  },
  setPayloadVersion: {
    rest: 'member',
    mcp: 'member',
    admin: ['payload-version set', 'shop create'],
  },
  setSandbox: { rest: 'operator', mcp: 'operator', admin: ['shop sandbox', 'shop create'] },
};
