import type { DescMethod, DescService } from '@bufbuild/protobuf';
import { CommerceService } from '../../proto/gen/rms/commerce/v1/commerce_pb.ts';
import { DestinationsService } from '../../proto/gen/rms/destinations/v1/destinations_pb.ts';
import { DispositionsService } from '../../proto/gen/rms/dispositions/v1/dispositions_pb.ts';
import { FraudService } from '../../proto/gen/rms/fraud/v1/fraud_pb.ts';
import { ApiKeysService } from '../../proto/gen/rms/portal/v1/api_keys_pb.ts';
import { AppsService } from '../../proto/gen/rms/portal/v1/apps_pb.ts';
import { AssistantsService } from '../../proto/gen/rms/portal/v1/assistants_pb.ts';
import { AuditService } from '../../proto/gen/rms/portal/v1/audit_pb.ts';
import { PayloadsService } from '../../proto/gen/rms/portal/v1/payloads_pb.ts';
import { SessionService } from '../../proto/gen/rms/portal/v1/session_pb.ts';
import { TeamService } from '../../proto/gen/rms/portal/v1/team_pb.ts';
import { UsageService } from '../../proto/gen/rms/portal/v1/usage_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import {
  type Delivery,
  type GetSubscriptionResponse,
  WebhooksService,
} from '../../proto/gen/rms/webhooks/v1/webhooks_pb.ts';
import { noteDestination } from '../actions/destinations.ts';
import { INSPECTION_TIMEOUT_MS as timeoutMs } from '../actions/dispositions.ts';
import { noteFraudReport } from '../actions/fraud.ts';
import { notePolicy, previewPolicy } from '../actions/policy.ts';
import { noteMoney } from '../actions/returns.ts';
import { announcedBy } from '../actions/review.ts';
import { hasRight, type RightName } from '../actions/rights.ts';
import { hideReports } from '../actions/timeline.ts';
import { noteOverlap } from '../actions/webhook-secrets.ts';
import { noteWebhook } from '../actions/webhooks.ts';
import { changesOf } from '../tenancy/field-change.ts';
import type { Role } from '../tenancy/permissions.ts';
import { noteConnection, readConnection } from './commerce.ts';
import type { Forwarding } from './forward.ts';
import { hideCards, hidePlace, readReport, readReturn, withoutReturn } from './returns.ts';
import { noteSettings, ofMerchant } from './settings.ts';

interface Entry<M extends DescMethod = DescMethod> extends Forwarding<M> {
  /** Who may call the method. */
  readonly right: RightName;
  /**
   * For a method that changes something, or shows a secret: the action of its entries in the audit log, and what the
   * log calls it. A call that failed has entries, too.
   */
  readonly audit?: readonly [action: `portal.${string}`, words: string];
}

/** A method of the portal. */
export interface PortalMethod extends Entry {
  readonly method: DescMethod;
}

/**
 * Every method of the portal. Those of other packages than `rms.portal.v1` are RPCs of a service: the page calls them with
 * the messages of the service, and `forward.ts` fills in what the session knows. The others are of the gateway.
 */
export const PORTAL_METHODS: readonly PortalMethod[] = [
  methodsOf(SessionService, {
    getSession: { right: 'ownSession' },
    switchShop: { right: 'ownSession', audit: ['portal.switch_shop', 'Switch to another shop'] },
    listSessions: { right: 'ownSession' },
    endSession: { right: 'ownSession', audit: ['portal.end_session', 'End a session'] },
    signOut: { right: 'ownSession', audit: ['portal.sign_out', 'Sign out'] },
    signOutEverywhere: {
      right: 'ownSession',
      audit: ['portal.sign_out_everywhere', 'Sign out everywhere'],
    },
  }),
  someOf(WebhooksService, {
    listSubscriptions: { right: 'seeWebhooks' },
    getSubscription: { right: 'seeWebhooks', hide: hideResponse },
    createSubscription: {
      right: 'changeWebhooks',
      audit: ['portal.create_webhook', 'Add a webhook'],
      note: (context, { subscription: to }) => noteWebhook(context, { to }),
    },
    updateSubscription: {
      right: 'changeWebhooks',
      audit: ['portal.update_webhook', 'Change a webhook'],
      note: (context, { previous: from, subscription: to }) =>
        from && noteWebhook(context, { from, to }),
      hide: (response) => {
        delete response.previous;
      },
    },
    deleteSubscription: {
      right: 'changeWebhooks',
      audit: ['portal.delete_webhook', 'Delete a webhook'],
      note: (context, { previous: from }) => noteWebhook(context, { from }),
      hide: (response) => {
        delete response.previous;
      },
    },
    revealSecret: {
      right: 'seeSecrets',
      audit: ['portal.reveal_webhook_secret', 'Show the signing secret of a webhook'],
    },
    rotateSecret: {
      right: 'changeWebhooks',
      audit: ['portal.rotate_webhook_secret', 'Rotate the signing secret of a webhook'],
      note: (context, _response, { overlapHours }) => noteOverlap(context, overlapHours),
    },
    endFormerSecrets: {
      right: 'changeWebhooks',
      audit: ['portal.end_earlier_webhook_secrets', 'End the earlier signing secrets of a webhook'],
      // A repeat of the call ends none, and has the same response.
      hide: (response) => {
        response.ended = 0;
      },
    },
    sendTest: {
      right: 'changeWebhooks',
      audit: ['portal.send_test_webhook', 'Send a test event'],
      note: ({ noteChanges }, _response, { version }) =>
        version !== '' && noteChanges?.(changesOf({ version: [undefined, version] })),
    },
    listLastTests: { right: 'setPayloadVersion', hide: hideEarlierAttempts },
    listDeliveries: { right: 'sendDeliveries', hide: hideEarlierAttempts },
    getDelivery: { right: 'sendDeliveries' },
    getDeliveryStats: { right: 'seeWebhooks' },
    retryDeliveries: {
      right: 'sendDeliveries',
      audit: ['portal.retry_webhook_deliveries', 'Send waiting deliveries at once'],
    },
    replayDelivery: {
      right: 'sendDeliveries',
      audit: ['portal.replay_webhook_delivery', 'Send a delivery again'],
    },
    previewReplay: { right: 'seeWebhooks' },
    startReplay: {
      right: 'sendDeliveries',
      audit: ['portal.start_replay', 'Send deliveries again'],
    },
    previewBackfill: { right: 'seeWebhooks' },
    startBackfill: {
      right: 'sendDeliveries',
      audit: ['portal.start_backfill', 'Send stored events'],
    },
    getReplay: { right: 'seeWebhooks' },
    listReplays: { right: 'seeWebhooks' },
    cancelReplay: { right: 'sendDeliveries', audit: ['portal.stop_replay', 'Stop sending again'] },
    setPayloadVersion: {
      right: 'setPayloadVersion',
      audit: ['portal.set_payload_version', 'Change the payload version'],
      note: ({ noteChanges }, { previous, version }) =>
        noteChanges?.(changesOf({ payload_version: [previous, version] })),
      hide: (response) => {
        response.previous = '';
      },
    },
  }),
  methodsOf(PayloadsService, {
    listEventTypes: { right: 'seeWebhooks' },
    getPayloadVersion: { right: 'seeWebhooks' },
    listRecentEvents: { right: 'setPayloadVersion' },
    previewPayload: { right: 'setPayloadVersion' },
  }),
  someOf(ReturnsService, {
    searchReturns: {
      right: 'seeReturns',
      call: ({ services }, request) =>
        services.returns.searchReturns({
          ...request,
          includeArchived: true,
          summaries: true,
          details: true,
        }),
    },
    findReturn: { right: 'seeReturns', call: readReturn },
    getTimeline: { right: 'seeReturns', hide: hideReports },
    listArrivals: { right: 'seeReturns' },
    checkReturn: { right: 'processReturns', hide: hideCards },
    processReturn: {
      right: 'processReturns',
      audit: ['portal.process_return', 'Process a return'],
      call: ({ services }, request) =>
        services.returns.processReturn({ ...request, source: 'admin', details: {} }),
      note: (context, { announced }) => noteMoney(context, announced),
    },
    flagReturn: {
      right: 'reviewReturns',
      audit: ['portal.flag_return', 'Put a return into review'],
      hide: withoutReturn,
    },
    unflagReturn: {
      right: 'reviewReturns',
      audit: ['portal.unflag_return', 'End the review of a return'],
      hide: withoutReturn,
    },
    cancelReturn: {
      right: 'reviewReturns',
      audit: ['portal.cancel_return', 'Cancel a return'],
      note: (context, { return: of }) => of && noteMoney(context, announcedBy(of)),
      hide: withoutReturn,
    },
    listWithdrawals: { right: 'seeReturns' },
    returnWithdrawal: {
      right: 'submitReturns',
      audit: ['portal.return_withdrawal', 'Make a return of a withdrawal'],
    },
    getPolicy: { right: 'seePolicy' },
    updatePolicy: {
      right: 'changePolicy',
      audit: ['portal.update_policy', 'Change the policy'],
      note: notePolicy,
    },
    previewPolicy: { right: 'changePolicy', call: previewPolicy },
    addNote: {
      right: 'reviewReturns',
      audit: ['portal.add_return_note', 'Add a note to a return'],
      call: ({ services }, request) => services.returns.addNote({ ...request, author: '' }),
    },
    getSettings: { right: 'changeSettings' },
    updateSettings: {
      right: 'changeSettings',
      audit: ['portal.update_settings', 'Change the settings of the shop'],
      call: ({ services, publicUrl }, request) =>
        services.returns.updateSettings(ofMerchant(request, publicUrl)),
      note: noteSettings,
    },
  }),
  someOf(CommerceService, {
    getConnection: { right: 'connectPlatform', call: readConnection },
    connect: {
      right: 'connectPlatform',
      audit: ['portal.connect_commerce', 'Connect the commerce platform'],
      note: (context, _response, { url, force }) => noteConnection(context, { url, force }),
    },
    rotateSecret: {
      right: 'connectPlatform',
      audit: ['portal.rotate_commerce_secret', 'Rotate the secret of the commerce platform'],
      note: (context, _response, { overlapHours }) => noteOverlap(context, overlapHours),
    },
    disconnect: {
      right: 'connectPlatform',
      audit: ['portal.disconnect_commerce', 'Disconnect the commerce platform'],
      note: (context, _response, { force }) => noteConnection(context, { force }),
    },
    startCheck: {
      right: 'connectPlatform',
      audit: ['portal.check_commerce', 'Check the connection to the commerce platform'],
    },
    getLastCheck: { right: 'connectPlatform' },
    createShopifyInstallLink: {
      right: 'connectPlatform',
      audit: ['portal.create_shopify_link', 'Begin the install at Shopify'],
      note: ({ noteChanges }, _response, { shopDomain }) =>
        noteChanges?.(changesOf({ store: [undefined, shopDomain] })),
    },
  }),
  someOf(DispositionsService, {
    gradeItems: {
      right: 'inspectGoods',
      audit: ['portal.grade_items', 'Record the condition of items'],
      call: ({ services }, request) => services.dispositions.gradeItems(request, { timeoutMs }),
    },
    assess: {
      right: 'inspectGoods',
      audit: ['portal.record_dispositions', 'Record what becomes of items'],
      call: ({ services }, request) =>
        services.dispositions.assess({ ...request, withoutNotes: true }, { timeoutMs }),
    },
  }),
  someOf(FraudService, {
    getReport: { right: 'seeFraudReports', call: readReport },
    listCategories: { right: 'reportFraud' },
    createReport: {
      right: 'reportFraud',
      audit: ['portal.create_fraud_report', 'Report a return as fraud'],
      note: noteFraudReport,
    },
  }),
  someOf(DestinationsService, {
    listDestinations: { right: 'seeDestinations' },
    getDestination: { right: 'seeReturns', hide: hidePlace },
    createDestination: {
      right: 'changeDestinations',
      audit: ['portal.create_destination', 'Add a destination'],
      note: noteDestination,
    },
    updateDestination: {
      right: 'changeDestinations',
      audit: ['portal.update_destination', 'Change a destination'],
      note: noteDestination,
      hide: (response) => {
        delete response.previous;
      },
    },
  }),
  methodsOf(ApiKeysService, {
    listApiKeys: { right: 'seeDevelopers' },
    listScopes: { right: 'seeDevelopers' },
    createApiKey: {
      right: 'changeDevelopers',
      audit: ['portal.create_api_key', 'Create an API key'],
    },
    rotateApiKey: {
      right: 'changeDevelopers',
      audit: ['portal.rotate_api_key', 'Rotate an API key'],
    },
    approveApiKey: {
      right: 'approveKeys',
      audit: ['portal.approve_api_key', 'Approve an API key'],
    },
    rejectApiKey: {
      right: 'approveKeys',
      audit: ['portal.reject_api_key', 'Reject an API key'],
    },
    revokeApiKey: {
      right: 'changeDevelopers',
      audit: ['portal.revoke_api_key', 'Revoke an API key'],
    },
  }),
  methodsOf(UsageService, {
    listVersionUsage: { right: 'seeDevelopers' },
  }),
  methodsOf(AppsService, {
    listApps: { right: 'seeDevelopers' },
    listRemovedApps: { right: 'seeDevelopers' },
    allowAppScopes: {
      right: 'allowAppScopes',
      audit: ['portal.allow_app_scopes', 'Allow what a partner app asks for'],
    },
    removeApp: { right: 'changeDevelopers', audit: ['portal.remove_app', 'Remove a partner app'] },
  }),
  methodsOf(AssistantsService, {
    listAssistants: { right: 'ownAssistants' },
    listEndedAssistants: { right: 'ownAssistants' },
    disconnectAssistant: {
      right: 'ownAssistants',
      audit: ['portal.disconnect_assistant', 'Disconnect an assistant'],
    },
  }),
  methodsOf(TeamService, {
    listMembers: { right: 'manageTeam' },
    listRoles: { right: 'ownSession' },
    listInvitations: { right: 'manageTeam' },
    inviteMember: {
      right: 'manageTeam',
      audit: ['portal.send_invitation', 'Invite a person'],
    },
    resendInvitation: {
      right: 'manageTeam',
      audit: ['portal.resend_invitation', 'Send an invitation again'],
    },
    withdrawInvitation: {
      right: 'manageTeam',
      audit: ['portal.withdraw_invitation', 'Withdraw an invitation'],
    },
    changeRole: {
      right: 'manageTeam',
      audit: ['portal.change_role', 'Change the role of a member'],
    },
    endMemberAccess: {
      right: 'manageTeam',
      audit: ['portal.end_member_access', 'End the access of a member'],
    },
    removeMember: { right: 'manageTeam', audit: ['portal.remove_member', 'Remove a member'] },
  }),
  methodsOf(AuditService, {
    listAuditEntries: { right: 'seeAuditLog' },
    listAuditChoices: { right: 'seeAuditLog' },
    exportAuditEntries: {
      right: 'seeAuditLog',
      audit: ['portal.export_audit_log', 'Export the audit log'],
    },
  }),
].flat();

function methodsOf<S extends DescService>(
  service: S,
  entries: { readonly [K in keyof S['method']]: Entry<S['method'][K]> },
): PortalMethod[] {
  return someOf(service, entries);
}

/** What a receiver answered is shown to those who may read deliveries. */
function hideResponse(
  { subscription }: GetSubscriptionResponse,
  may: (right: RightName) => boolean,
): void {
  const failure = subscription?.lastFailure;
  if (failure && !may('sendDeliveries')) failure.responseExcerpt = '';
}

/** A list has the last attempt of each delivery: with all of them it could have megabytes. */
function hideEarlierAttempts({ deliveries }: { readonly deliveries: Delivery[] }): void {
  for (const delivery of deliveries) delivery.attempts = delivery.attempts.slice(-1);
}

/** The methods of a service that the page may call. */
function someOf<S extends DescService>(
  service: S,
  entries: { readonly [K in keyof S['method']]?: Entry<S['method'][K]> },
): PortalMethod[] {
  return service.methods.flatMap((method) => {
    const entry: Entry | undefined = Reflect.get(entries, method.localName);
    return entry ? [{ ...entry, method }] : [];
  });
}

const BY_NAME: ReadonlyMap<string, PortalMethod> = new Map(
  PORTAL_METHODS.map((one) => [nameOf(one.method), one]),
);

/** The entry of a method; undefined when it has none, and then nobody may call it. */
export function entryOf(method: DescMethod): PortalMethod | undefined {
  return BY_NAME.get(nameOf(method));
}

/** Whether a member with this role may call the method. */
export function mayCall(role: Role, method: DescMethod): boolean {
  const entry = entryOf(method);
  return entry !== undefined && hasRight(role, entry.right);
}

/** The full name of a method, such as `rms.returns.v1.ReturnsService/ProcessReturn`. */
export function nameOf(method: DescMethod): string {
  return `${method.parent.typeName}/${method.name}`;
}
