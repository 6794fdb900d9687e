import { Code } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { AppsService } from '../../../proto/gen/rms/portal/v1/apps_pb.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../../test/kit/gateway/test-gateway.ts';
import { portalPerson } from '../../../test/kit/portal/portal.ts';
import { listAudit } from '../../tenancy/audit-list.ts';
import { addMember } from '../../tenancy/members.ts';
import { createPartnerApp } from '../../tenancy/partner-apps.ts';
import { divideScopes, findPartnerGrant } from '../../tenancy/partner-grants.ts';
import { ROLES } from '../../tenancy/permissions.ts';
import { purgeOneTimeRecords } from '../sign-in/one-time-records.ts';
import { partnerIssuer } from './address.ts';
import { issuePartnerGrant } from './tokens.ts';

let under: TestGateway;
let issuer: string;
beforeAll(async () => {
  under = await startTestGateway();
  issuer = partnerIssuer('http://127.0.0.1:8080');
});
afterAll(() => under.stop());

const pool = () => under.database.pool;

/** An app that a member connected, and whose scope waits for an owner. */
async function waitingApp(shopId: bigint) {
  const { clientId } = await createPartnerApp(pool(), {
    name: 'Parcels',
    redirectUris: ['https://app.example.com/callback'],
    scopes: ['developer_tools', 'labels:write'],
    website: 'https://parcels.example.com',
  });
  const { userId } = await portalPerson(under, { shopId, role: 'developer' });
  const whose = { shopId, userId, clientId, issuer };
  const requested = ['developer_tools', 'labels:write', 'unknown'];
  const id = await issuePartnerGrant(pool(), { ...whose, requested, by: TEST_AUTHOR });
  await pool().query(
    "update partner_grants set scopes = '{developer_tools}', waiting_scopes = '{labels:write}' where id = $1",
    [id],
  );
  return { clientId, issuer };
}

test('what a member let an app do ends when their role no longer covers it, and nobody inherits it', async () => {
  const shopId = await under.newShop();
  const scopes = ['returns', 'developer_tools'] as const;
  const redirectUris = ['https://app.example.com/callback'];
  const { clientId } = await createPartnerApp(pool(), { name: 'Goods back', redirectUris, scopes });
  const grant = async (userId: bigint, requested: readonly string[]) => {
    const whose = { shopId, userId, clientId, issuer, requested, by: TEST_AUTHOR };
    const id = await issuePartnerGrant(pool(), whose);
    return () => findPartnerGrant(pool(), id);
  };
  // The shop keeps an owner.
  await portalPerson(under, { shopId, role: 'owner' });
  const { userId, email } = await portalPerson(under, { shopId, role: 'admin' });
  const [all, some] = [await grant(userId, scopes), await grant(userId, ['developer_tools'])];
  await addMember(pool(), { shopId, email, role: 'developer', by: TEST_AUTHOR });
  expect(await all()).toBeUndefined();
  expect(await some()).toMatchObject({ scopes: ['developer_tools'] });
  const developer = await portalPerson(under, { shopId, role: 'developer' });
  const later = await grant(developer.userId, ['returns']);
  expect(await later()).toMatchObject({ scopes: [], waitingScopes: ['returns'] });
});

describe('an app in the portal', () => {
  test('is listed with its name, what it may do and what waits, and its last use', async () => {
    const shopId = await under.newShop();
    const app = await waitingApp(shopId);
    const owner = await portalPerson(under, { shopId, role: 'owner' });
    await pool().query(
      `insert into version_usage (shop_id, credential_kind, credential_id, requested, day, requests, last_operation, last_at)
       values ($1, 'partner_app', $2, '', now()::date, 1, 'GET /webhooks', '2026-11-20T10:00:00Z')`,
      [shopId, app.clientId],
    );
    const { apps } = await owner.client(AppsService).listApps({});
    expect(apps).toMatchObject([
      {
        ...app,
        name: 'Parcels',
        website: 'https://parcels.example.com/',
        scopes: [{ name: 'developer_tools', text: expect.stringContaining('webhooks') }],
        waitingScopes: [{ name: 'labels:write', text: expect.stringContaining('labels') }],
        lastUsedAt: { seconds: BigInt(Date.parse('2026-11-20T10:00:00Z') / 1_000) },
      },
    ]);
  });

  test('gets what it waits for from an owner, and from nobody else; a repeat changes nothing', async () => {
    const shopId = await under.newShop();
    const app = await waitingApp(shopId);
    const owner = await portalPerson(under, { shopId, role: 'owner' });
    const request = { ...app, scopes: ['labels:write', 'developer_tools'] };
    for (const role of ROLES.filter((one) => one !== 'owner')) {
      const person = await portalPerson(under, { shopId, role });
      await expect(person.client(AppsService).allowAppScopes(request)).rejects.toMatchObject({
        code: Code.PermissionDenied,
      });
    }
    const ofOtherShop = await portalPerson(under, { shopId: await under.newShop(), role: 'owner' });
    await expect(ofOtherShop.client(AppsService).allowAppScopes(request)).rejects.toMatchObject({
      code: Code.NotFound,
    });
    await owner.client(AppsService).allowAppScopes(request);
    await owner.client(AppsService).allowAppScopes(request);
    const { apps } = await owner.client(AppsService).listApps({});
    expect(apps[0]?.scopes.map(({ name }) => name)).toEqual(['developer_tools', 'labels:write']);
    expect(apps[0]?.waitingScopes).toEqual([]);
    const entries = await listAudit(pool(), { shopId, action: 'app.scopes_allowed', limit: 5 });
    expect(entries).toMatchObject([
      { subject: app.clientId, detail: { scopes: ['labels:write'] } },
    ]);
  });

  test('that has a scope in the shop does not wait for it again', async () => {
    const shopId = await under.newShop();
    const { clientId } = await waitingApp(shopId);
    const where = { shopId, issuer, clientId, role: 'analyst' } as const;
    const divided = await divideScopes(pool(), where, ['developer_tools', 'labels:write']);
    expect(divided.scopes).toContain('developer_tools');
  });
});

test('a grant without a token that works is deleted; the app stays installed', async () => {
  const shopId = await under.newShop();
  const { clientId } = await waitingApp(shopId);
  const count = async () => {
    const { rows } = await pool().query(
      `select (select count(*)::int from partner_grants where shop_id = $1) as grants,
              (select count(*)::int from installations where shop_id = $1 and client_id = $2) as apps`,
      [shopId, clientId],
    );
    return rows[0];
  };
  await purgeOneTimeRecords(pool());
  expect(await count()).toEqual({ grants: 1, apps: 1 });
  await pool().query("update partner_grants set created_at = now() - interval '3 hours'");
  await purgeOneTimeRecords(pool());
  expect(await count()).toEqual({ grants: 0, apps: 1 });
});
