import type { DescMethod } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { fullName } from '../../test/kit/portal/call.ts';
import { type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';
import { hasRight, RIGHTS, type Right, type RightName } from '../actions/rights.ts';
import { ROLES, type Role } from '../tenancy/permissions.ts';
import { mayCall, nameOf, PORTAL_METHODS } from './methods.ts';

const EVERYBODY: readonly Role[] = ROLES;
const MANAGERS: readonly Role[] = ['owner', 'admin'];
const AGENTS: readonly Role[] = [...MANAGERS, 'returns_agent'];
const DEVELOPERS: readonly Role[] = [...MANAGERS, 'developer'];

/** Written by hand, so that nobody gives a role a right by accident. */
const EXPECTED: Readonly<Record<RightName, readonly Role[]>> = {
  seeReturns: EVERYBODY,
  submitReturns: AGENTS,
  processReturns: AGENTS,
  reviewReturns: AGENTS,
  inspectGoods: [...AGENTS, 'warehouse'],
  seePolicy: EVERYBODY,
  changePolicy: MANAGERS,
  seeFigures: [...AGENTS, 'analyst'],
  seeFraudReports: [...AGENTS, 'analyst'],
  reportFraud: AGENTS,
  createCarts: AGENTS,
  reportLabels: [],
  reportGiftCards: [],
  seeDestinations: [...AGENTS, 'warehouse'],
  changeDestinations: MANAGERS,
  seeWebhooks: DEVELOPERS,
  sendDeliveries: DEVELOPERS,
  changeWebhooks: DEVELOPERS,
  seeSecrets: DEVELOPERS,
  setPayloadVersion: DEVELOPERS,
  seeDevelopers: DEVELOPERS,
  changeDevelopers: DEVELOPERS,
  allowAppScopes: ['owner'],
  approveKeys: ['owner'],
  manageTeam: MANAGERS,
  seeAuditLog: MANAGERS,
  changeSettings: MANAGERS,
  connectPlatform: MANAGERS,
  ownAssistants: EVERYBODY,
  ownSession: EVERYBODY,
};

/** Why a repeat of a write without a key has no second effect. */
const KEYLESS: Readonly<Record<string, string>> = {
  'SessionService/SwitchShop': 'the session is at that shop already',
  'SessionService/EndSession': 'an ended session stays ended',
  'SessionService/SignOut': 'an ended session stays ended',
  'SessionService/SignOutEverywhere': 'an ended session stays ended',
  'ApiKeysService/ApproveApiKey': 'an approved key stays approved',
  'ApiKeysService/RejectApiKey': 'a rejected key stays rejected',
  'ApiKeysService/RevokeApiKey': 'a revoked key stays revoked',
  'AppsService/RemoveApp': 'a removed app stays removed',
  'AppsService/AllowAppScopes': 'allowed scopes stay allowed',
  'AssistantsService/DisconnectAssistant': 'a revoked grant stays revoked',
  'ReturnsService/UpdateSettings': 'the values are no longer those that the user saw',
  'CommerceService/Connect': 'the shop has this address already, and its secret stays',
  'CommerceService/StartCheck': 'it finds the check that runs',
  'CommerceService/Disconnect': 'a removed connection stays removed',
  'CommerceService/CreateShopifyInstallLink': 'the new link replaces the earlier one',
  'ReturnsService/ReturnWithdrawal': 'the withdrawal has a return already',
  'ReturnsService/UpdatePolicy': 'an equal policy makes no version',
  'WebhooksService/DeleteSubscription': 'a deleted webhook stays deleted',
  'WebhooksService/EndFormerSecrets': 'ended secrets stay ended',
  'WebhooksService/RevealSecret': 'it reads, and is in the audit log because of what it reads',
  'WebhooksService/CancelReplay': 'an ended job stays ended',
  'WebhooksService/SetPayloadVersion': 'the version is no longer the one that the user saw',
  'TeamService/ChangeRole': 'the member has this role already',
  'TeamService/WithdrawInvitation': 'a withdrawn invitation stays withdrawn',
  'TeamService/EndMemberAccess': 'the person has no access any more that could end',
  'TeamService/RemoveMember': 'a removed member stays removed',
  'AuditService/ExportAuditEntries': 'it reads, and is in the audit log because of what it reads',
};

const shortName = (method: DescMethod): string => `${method.parent.name}/${method.name}`;

let under: TestGateway;
const people = new Map<Role, PortalPerson>();

const lines: string[] = [];
beforeAll(async () => {
  const logDestination = { write: (line: string): void => void lines.push(line) };
  under = await startTestGateway({ LOG_LEVEL: 'info', logDestination });
});
afterAll(() => under.stop());

/** Calls a method directly, as somebody who does not use the page. */
async function call(role: Role, name: string): Promise<{ status: number; body: unknown }> {
  const person = people.get(role) ?? (await portalPerson(under, { shopId: 1n, role }));
  people.set(role, person);
  if (name.startsWith('SessionService/')) people.delete(role);
  const response = await fetch(`${under.gateway.baseUrl}/portal/api/${fullName(name)}`, {
    method: 'POST',
    body: '{}',
    headers: {
      'Content-Type': 'application/json',
      'Connect-Protocol-Version': '1',
      'Sec-Fetch-Site': 'same-origin',
      Cookie: `rms_portal=${person.secret}`,
    },
  });
  return { status: response.status, body: await response.json() };
}

describe('every method of the portal', () => {
  describe.each(ROLES)('as %s', (role) => {
    test.each(PORTAL_METHODS)('$method.name', async ({ method, right }) => {
      const { status, body } = await call(role, shortName(method));
      if (EXPECTED[right].includes(role)) {
        expect([401, 403, 500, 501]).not.toContain(status);
        expect(body).not.toMatchObject({ code: 'unimplemented' });
      } else
        expect({ status, body }).toMatchObject({
          status: 403,
          body: { code: 'permission_denied' },
        });
    });
  });

  test('that is no read has a name in the audit log', () => {
    for (const { method, audit } of PORTAL_METHODS) {
      const isRead = /^(?:Check|Find|Get|List|Preview|Search)/.test(method.name);
      expect([nameOf(method), isRead]).toEqual([nameOf(method), audit === undefined]);
    }
  });

  test('that writes takes an idempotency key, or a repeat has no second effect', () => {
    const keyless = PORTAL_METHODS.filter(({ audit }) => audit !== undefined)
      .filter(({ method }) => method.input.field.idempotencyKey === undefined)
      .map(({ method }) => shortName(method));
    expect(keyless.toSorted()).toEqual(Object.keys(KEYLESS).toSorted());
  });

  test('that the role may not call has a line in the log, with who and from where', async () => {
    lines.splice(0);
    await call('analyst', 'TeamService/RemoveMember');
    const [line] = lines.map((text) => JSON.parse(text)).filter(({ refused }) => refused);
    expect(line).toMatchObject({
      ...{ msg: 'portal call refused', refused: 'permission missing', role: 'analyst' },
      ...{ actorId: String(people.get('analyst')?.userId), source: '127.0.0.1' },
      requestId: expect.any(String),
    });
  });

  test('is refused to everybody when it has no entry', () => {
    for (const role of ROLES) expect(mayCall(role, ReturnsService.method.submitReturn)).toBe(false);
  });
});

describe('the table of roles', () => {
  test.each(ROLES)('gives %s the expected rights', (role) => {
    const names = Object.keys(RIGHTS) as RightName[];
    expect(names.filter((name) => hasRight(role, name))).toEqual(
      names.filter((name) => EXPECTED[name].includes(role)),
    );
  });

  test('has every operation of the REST API once: add it to `gateway/actions/rights.ts`', () => {
    const operations = Object.values<Right>(RIGHTS).flatMap(({ rest = [] }) => rest);
    expect(operations.toSorted()).toEqual(OPERATIONS.map(({ id }) => id).toSorted());
  });
});
