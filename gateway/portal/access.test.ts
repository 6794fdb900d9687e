import { readdir } from 'node:fs/promises';
import type { DescFile } from '@bufbuild/protobuf';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { ReturnsService } from '../../proto/gen/rms/returns/v1/returns_pb.ts';
import { OPERATIONS } from '../../services/contract/operations.ts';
import { startTestGateway, type TestGateway } from '../../test/kit/gateway/test-gateway.ts';
import { type PortalPerson, portalPerson } from '../../test/kit/portal/portal.ts';
import { ACTION_PERMISSIONS, permissionsFor } from '../actions/permissions.ts';
import { PERMISSIONS, ROLES, type Role } from '../tenancy/permissions.ts';
import { accessOf, mayCall, nameOf } from './access.ts';
import { PORTAL_METHODS, PORTAL_SERVICES } from './all-services.ts';
import { methodNamed, ROLE_TABLE } from './role-table.ts';

const EVERYBODY: readonly Role[] = ROLES;
const MANAGERS: readonly Role[] = ['owner', 'admin'];
const AGENTS: readonly Role[] = [...MANAGERS, 'returns_agent'];
const DEVELOPERS: readonly Role[] = [...MANAGERS, 'developer'];

/** Written by hand, so that nobody gives a role a method by accident. */
const EXPECTED: Readonly<Record<string, readonly Role[]>> = {
  'SessionService/GetSession': EVERYBODY,
  'SessionService/SwitchShop': EVERYBODY,
  'SessionService/ListSessions': EVERYBODY,
  'SessionService/EndSession': EVERYBODY,
  'SessionService/SignOut': EVERYBODY,
  'SessionService/SignOutEverywhere': EVERYBODY,
  'WebhooksService/ListWebhooks': DEVELOPERS,
  'WebhooksService/GetWebhook': DEVELOPERS,
  'WebhooksService/ListEventTypes': DEVELOPERS,
  'WebhooksService/CreateWebhook': DEVELOPERS,
  'WebhooksService/UpdateWebhook': DEVELOPERS,
  'WebhooksService/DeleteWebhook': DEVELOPERS,
  'WebhooksService/RevealSecret': DEVELOPERS,
  'WebhooksService/RotateSecret': DEVELOPERS,
  'WebhooksService/EndEarlierSecrets': DEVELOPERS,
  'WebhooksService/SendTest': DEVELOPERS,
  'WebhooksService/ListDeliveries': DEVELOPERS,
  'WebhooksService/GetDelivery': DEVELOPERS,
  'WebhooksService/GetDeliveryStats': DEVELOPERS,
  'WebhooksService/RetryDeliveries': DEVELOPERS,
  'WebhooksService/ReplayDelivery': DEVELOPERS,
  'WebhooksService/PreviewReplay': DEVELOPERS,
  'WebhooksService/StartReplay': DEVELOPERS,
  'WebhooksService/PreviewBackfill': DEVELOPERS,
  'WebhooksService/StartBackfill': DEVELOPERS,
  'WebhooksService/GetReplay': DEVELOPERS,
  'WebhooksService/ListReplays': DEVELOPERS,
  'WebhooksService/StopReplay': DEVELOPERS,
  'PayloadVersionService/GetPayloadVersion': DEVELOPERS,
  'PayloadVersionService/SetPayloadVersion': DEVELOPERS,
  'PayloadVersionService/ListRecentEvents': DEVELOPERS,
  'PayloadVersionService/PreviewPayload': DEVELOPERS,
  'PayloadVersionService/ListVersionTests': DEVELOPERS,
  'PayloadVersionService/SendVersionTest': DEVELOPERS,
  'ReturnsService/ListReturns': EVERYBODY,
  'ReturnsService/GetReturn': EVERYBODY,
  'ReturnsService/ListTimeline': EVERYBODY,
  'ReturnsService/ProcessReturn': AGENTS,
  'ReturnsService/FlagReturn': AGENTS,
  'ReturnsService/UnflagReturn': AGENTS,
  'ReturnsService/CancelReturn': AGENTS,
  'ReturnsService/GradeItems': [...AGENTS, 'warehouse'],
  'ReturnsService/RecordDispositions': [...AGENTS, 'warehouse'],
  'ReturnsService/AddNote': AGENTS,
  'ReturnsService/GetFraudReport': [...AGENTS, 'analyst'],
  'ReturnsService/ListFraudCategories': AGENTS,
  'ReturnsService/CreateFraudReport': AGENTS,
  'DestinationsService/ListDestinations': [...AGENTS, 'warehouse'],
  'DestinationsService/GetDestination': [...AGENTS, 'warehouse'],
  'DestinationsService/CreateDestination': MANAGERS,
  'DestinationsService/UpdateDestination': MANAGERS,
  'ApiKeysService/ListApiKeys': DEVELOPERS,
  'ApiKeysService/ListScopes': DEVELOPERS,
  'ApiKeysService/CreateApiKey': DEVELOPERS,
  'ApiKeysService/RotateApiKey': DEVELOPERS,
  'ApiKeysService/RevokeApiKey': DEVELOPERS,
  'UsageService/ListVersionUsage': DEVELOPERS,
  'AppsService/ListApps': DEVELOPERS,
  'AppsService/ListRemovedApps': DEVELOPERS,
  'AppsService/RemoveApp': DEVELOPERS,
  'AssistantsService/ListAssistants': EVERYBODY,
  'AssistantsService/ListEndedAssistants': EVERYBODY,
  'AssistantsService/DisconnectAssistant': EVERYBODY,
  'TeamService/ListMembers': MANAGERS,
  'TeamService/ListRoles': EVERYBODY,
  'TeamService/AddMember': MANAGERS,
  'TeamService/ChangeRole': MANAGERS,
  'TeamService/RemoveMember': MANAGERS,
  'AuditService/ListAuditEntries': MANAGERS,
  'AuditService/ListAuditChoices': MANAGERS,
  'AuditService/ExportAuditEntries': MANAGERS,
};

/** Why a repeat of a write without a key has no second effect. */
const KEYLESS: Readonly<Record<string, string>> = {
  'SessionService/SwitchShop': 'the session is at that shop already',
  'SessionService/EndSession': 'an ended session stays ended',
  'SessionService/SignOut': 'an ended session stays ended',
  'SessionService/SignOutEverywhere': 'an ended session stays ended',
  'ApiKeysService/RevokeApiKey': 'a revoked key stays revoked',
  'AppsService/RemoveApp': 'a removed app stays removed',
  'AssistantsService/DisconnectAssistant': 'a revoked grant stays revoked',
  'WebhooksService/DeleteWebhook': 'a deleted webhook stays deleted',
  'WebhooksService/EndEarlierSecrets': 'ended secrets stay ended',
  'WebhooksService/RevealSecret': 'it reads, and is in the audit log because of what it reads',
  'WebhooksService/StopReplay': 'an ended job stays ended',
  'PayloadVersionService/SetPayloadVersion': 'the version is no longer the one that the user saw',
  'TeamService/AddMember': 'the person is a member with this role already',
  'TeamService/ChangeRole': 'the member has this role already',
  'TeamService/RemoveMember': 'a removed member stays removed',
  'AuditService/ExportAuditEntries': 'it reads, and is in the audit log because of what it reads',
};

let under: TestGateway;
const people = new Map<Role, PortalPerson>();

beforeAll(async () => {
  under = await startTestGateway();
});
afterAll(() => under.stop());

/** Calls a method directly, as somebody who does not use the page. */
async function call(role: Role, name: string): Promise<{ status: number; body: unknown }> {
  const person = people.get(role) ?? (await portalPerson(under, { shopId: 1n, role }));
  people.set(role, person);
  if (name.startsWith('SessionService/')) people.delete(role);
  const response = await fetch(`${under.gateway.baseUrl}/portal/api/rms.portal.v1.${name}`, {
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

function isFile(value: unknown): value is DescFile {
  return value instanceof Object && 'kind' in value && value.kind === 'file';
}

describe('every method of the portal', () => {
  test('of every proto of the portal is served', async () => {
    const folder = new URL('../../proto/gen/rms/portal/v1/', import.meta.url);
    const services: string[] = [];
    for (const file of await readdir(folder)) {
      const found: Record<string, unknown> = await import(new URL(file, folder).href);
      const files = Object.values(found).filter((one) => isFile(one));
      services.push(...files.flatMap((one) => one.services.map(({ typeName }) => typeName)));
    }
    expect(services.toSorted()).toEqual(PORTAL_SERVICES.map(({ typeName }) => typeName).toSorted());
  });

  test('is in the table of this test', () => {
    const names = PORTAL_METHODS.map(nameOf).map((name) => name.replace('rms.portal.v1.', ''));
    expect(names.toSorted()).toEqual(Object.keys(EXPECTED).toSorted());
  });

  describe.each(ROLES)('as %s', (role) => {
    test.each(Object.entries(EXPECTED))('%s', async (name, roles) => {
      const { status, body } = await call(role, name);
      if (roles.includes(role)) {
        expect([401, 403, 500, 501]).not.toContain(status);
        expect(body).not.toMatchObject({ code: 'unimplemented' });
      } else
        expect({ status, body }).toMatchObject({
          status: 403,
          body: { code: 'permission_denied' },
        });
    });
  });

  test('names its permissions, which exist, or is for every member', () => {
    for (const method of PORTAL_METHODS) {
      const { anyOf = [], everyMember } = accessOf(method) ?? {};
      expect([nameOf(method), anyOf.length > 0 !== everyMember]).toEqual([nameOf(method), true]);
      for (const permission of anyOf) expect(PERMISSIONS).toContain(permission);
    }
  });

  test('that is no read has a name in the audit log', () => {
    for (const method of PORTAL_METHODS) {
      const isRead = /^(?:Get|List|Preview)/.test(method.name);
      expect([nameOf(method), isRead]).toEqual([nameOf(method), accessOf(method)?.audit === '']);
    }
  });

  test('that writes takes an idempotency key, or a repeat has no second effect', () => {
    const keyless = PORTAL_METHODS.filter((method) => accessOf(method)?.audit !== '')
      .filter(({ input }) => input.field.idempotencyKey === undefined)
      .map(nameOf);
    expect(keyless.map((name) => name.replace('rms.portal.v1.', '')).toSorted()).toEqual(
      Object.keys(KEYLESS).toSorted(),
    );
  });

  test('is refused to everybody when it says nothing', () => {
    for (const role of ROLES)
      expect(mayCall(role, ReturnsService.method.processReturn)).toBe(false);
  });
});

describe('the table of roles', () => {
  test('has every method of the portal once', () => {
    const shown = ROLE_TABLE.flatMap(({ portal = [] }) => portal);
    expect(shown.toSorted()).toEqual(Object.keys(EXPECTED).toSorted());
  });

  test('has every tool of assistants and every operation of the REST API once: add it to `role-table.ts`', () => {
    const tools = ROLE_TABLE.flatMap(({ mcp = [] }) => mcp);
    expect(tools.toSorted()).toEqual(Object.keys(ACTION_PERMISSIONS).toSorted());
    const operations = ROLE_TABLE.flatMap(({ rest = [] }) => rest);
    expect(operations.toSorted()).toEqual(OPERATIONS.map(({ id }) => id).toSorted());
  });

  test.each(ROLE_TABLE.map((row) => [row.description, row] as const))(
    '%s: the same rights through every door',
    (_description, { portal = [], mcp = [] }) => {
      const rights = [
        ...portal.map((name) => accessOf(methodNamed(name))?.anyOf ?? []),
        ...mcp.map((action) => permissionsFor(action)),
      ];
      for (const each of rights) expect(each).toEqual(rights[0]);
    },
  );
});
