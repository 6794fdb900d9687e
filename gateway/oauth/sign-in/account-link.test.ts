import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { freePorts } from '../../../deploy/local/free-ports.ts';
import { newKeyringText, parseKeyring } from '../../../services/platform/security/keyring.ts';
import {
  startTestGateway,
  TEST_AUTHOR,
  type TestGateway,
} from '../../../test/kit/gateway/test-gateway.ts';
import { Browser, type Shown } from '../../../test/kit/oauth/browser.ts';
import {
  type FakeIdentity,
  SIGN_IN_CLIENT,
  startFakeIdentity,
} from '../../../test/kit/oauth/fake-identity.ts';
import {
  CLIENT_ID,
  HIGH_HOURLY_LIMITS,
  REDIRECT,
  signInSettings,
} from '../../../test/kit/oauth/sign-in-stack.ts';
import { listGrants } from '../../tenancy/grants.ts';
import { addMember, removeMember } from '../../tenancy/members.ts';
import { createPartnerApp } from '../../tenancy/partner-apps.ts';
import { unlinkAccount } from '../../tenancy/sign-in-accounts.ts';
import { storeGrant } from '../tokens/issue.ts';

const REQUIRED_ACR = ['urn:mfa', 'phr'];

let identity: FakeIdentity;
let gateway: TestGateway;
let baseUrl: string;
/** Another gateway, which requires a second factor. */
let strict: TestGateway;
let strictUrl: string;
/** The client id of a partner's app. */
let app: string;
beforeAll(async () => {
  const [port = 0, strictPort = 0, identityPort = 0] = await freePorts(3);
  baseUrl = `http://127.0.0.1:${port}`;
  strictUrl = `http://127.0.0.1:${strictPort}`;
  identity = await startFakeIdentity(identityPort);
  const shared = {
    ...signInSettings(identity.issuer, SIGN_IN_CLIENT),
    OAUTH_KEYRING: parseKeyring(newKeyringText()),
    ...HIGH_HOURLY_LIMITS,
  };
  gateway = await startTestGateway({ ...shared, PORT: port, PUBLIC_BASE_URL: baseUrl });
  strict = await startTestGateway({
    ...shared,
    PORT: strictPort,
    PUBLIC_BASE_URL: strictUrl,
    DATABASE_URL: gateway.database.url,
    SIGN_IN_REQUIRED_ACR: REQUIRED_ACR,
  });
  const asked = { name: 'Parcels', redirectUris: [REDIRECT], scopes: ['developer_tools'] };
  app = (await createPartnerApp(gateway.database.pool, asked)).clientId;
});
afterEach(() => {
  identity.claims = {};
  identity.isForging = false;
});
afterAll(async () => {
  await strict.stop();
  await gateway.stop();
  identity.stop();
});

interface TestUser {
  readonly email: string;
  readonly shopId: bigint;
  readonly userId: bigint;
}

async function newMember(email = `${randomUUID()}@example.com`): Promise<TestUser> {
  const shopId = await gateway.newShop();
  const { pool } = gateway.database;
  const owner = { shopId, email: `owner-${email}`, role: 'owner' as const, by: TEST_AUTHOR };
  await addMember(pool, owner);
  return { ...(await addMember(pool, { ...owner, email, role: 'analyst' })), email };
}

/** The doors through which people sign in: paths of the gateway. */
const DOORS = ['/oauth/authorize', '/portal/sign-in', '/partners/authorize'] as const;

interface Arrival {
  /** `/oauth/authorize` when undefined. */
  readonly door?: (typeof DOORS)[number];
  readonly email: string;
  readonly claims?: Record<string, unknown>;
  readonly query?: Record<string, string>;
  readonly gatewayUrl?: string;
}

/** Signs in at the identity provider, which returns these claims. @returns the page, and the URL of the redirect to the provider. */
async function arrive(o: Arrival): Promise<{ shown: Shown; sentTo: URL }> {
  const query = new URLSearchParams({
    response_type: 'code',
    client_id: CLIENT_ID,
    redirect_uri: REDIRECT,
    code_challenge: 'x'.repeat(43),
    code_challenge_method: 'S256',
    login_hint: o.email,
    ...(o.door === '/partners/authorize' && { client_id: app, scope: 'developer_tools' }),
    ...o.query,
  });
  const browser = new Browser();
  const url = `${o.gatewayUrl ?? baseUrl}${o.door ?? '/oauth/authorize'}?${query}`;
  const { location: sentTo } = await toProvider(browser, url);
  // The portal does not know who signs in.
  identity.claims = { email: o.email, ...o.claims };
  const shown = await browser.open(identity.callbackOf(sentTo), REDIRECT);
  return { shown, sentTo };
}

/** Follows the redirects of the gateway, up to the one to the identity provider. */
async function toProvider(browser: Browser, url: string): Promise<{ location: URL }> {
  const { headers } = await browser.send(url);
  const location = new URL(headers.get('location') ?? '', url);
  if (location.href.startsWith(identity.issuer)) return { location };
  return toProvider(browser, location.href);
}

/** Whether the page is the consent page for the shop of this user. */
const isConsentPage = ({ shown }: { shown: Shown }, { shopId }: TestUser): boolean =>
  shown.status === 200 && shown.text.includes(`no. ${shopId})`);
const isOtherAccountPage = ({ shown }: { shown: Shown }): boolean =>
  shown.status === 403 && shown.text.includes('Another account is linked');

const actionsOf = async ({ shopId, userId }: TestUser): Promise<string[]> => {
  const { rows } = await gateway.database.pool.query<{ action: string }>(
    "select action from audit_log where shop_id = $1 and subject = $2 and action like 'member.%' order by id",
    [shopId, String(userId)],
  );
  return rows.map(({ action }) => action);
};

describe('a user is an account of the identity provider', () => {
  test('at the first sign-in: afterwards another account with the same address is rejected', async () => {
    const user = await newMember();
    const { email } = user;
    expect(isConsentPage(await arrive({ email, claims: { sub: 'first' } }), user)).toBe(true);
    expect(isConsentPage(await arrive({ email, claims: { sub: 'first' } }), user)).toBe(true);
    const other = await arrive({ email, claims: { sub: 'second' } });
    expect(isOtherAccountPage(other)).toBe(true);
    for (const door of DOORS) {
      const again = await arrive({ door, email, claims: { sub: 'second' } });
      expect([door, isOtherAccountPage(again)]).toEqual([door, true]);
    }
    expect(other.shown.text).toContain('remove you from the team and add you again');
    expect(await actionsOf(user)).toEqual(['member.added', 'member.account_linked']);
    const { rows } = await gateway.database.pool.query(
      `select sign_in_issuer, sign_in_subject from memberships where user_id = $1`,
      [user.userId],
    );
    expect(rows).toEqual([{ sign_in_issuer: identity.issuer, sign_in_subject: 'first' }]);
  });

  test('in all shops where the address has no linked account', async () => {
    const one = await newMember();
    const { email } = one;
    const two = await newMember(email);
    expect(isConsentPage(await arriveForShop(one, 'first'), one)).toBe(true);
    expect(isOtherAccountPage(await arriveForShop(two, 'second'))).toBe(true);
  });

  /** As `arrive`, for a user of several shops: chooses one first. */
  async function arriveForShop(
    { email, shopId }: TestUser,
    sub: string,
  ): Promise<{ shown: Shown }> {
    const query = new URLSearchParams({
      response_type: 'code',
      client_id: CLIENT_ID,
      redirect_uri: REDIRECT,
      code_challenge: 'x'.repeat(43),
      code_challenge_method: 'S256',
      login_hint: email,
    });
    const browser = new Browser();
    const shops = await browser.open(`${baseUrl}/oauth/authorize?${query}`, REDIRECT);
    const toIdentity = await browser.submit(shops, { shop_id: String(shopId) }, identity.issuer);
    identity.claims = { sub };
    return { shown: await browser.open(identity.callbackOf(toIdentity.url), REDIRECT) };
  }

  test.each(['removed and added again', 'unlinked by the operator'])(
    'again after the user was %s: another account is accepted, and the old one is rejected',
    async (how) => {
      const user = await newMember();
      const { email, shopId } = user;
      const { pool } = gateway.database;
      await arrive({ email, claims: { sub: 'first' } });
      if (how.startsWith('removed')) {
        await removeMember(pool, { shopId, email, by: TEST_AUTHOR });
        await addMember(pool, { shopId, email, role: 'analyst', by: TEST_AUTHOR });
      } else {
        await unlinkAccount(pool, { shopId, email, by: TEST_AUTHOR });
        expect(await actionsOf(user)).toContain('member.account_unlinked');
      }
      expect(isConsentPage(await arrive({ email, claims: { sub: 'second' } }), user)).toBe(true);
      expect(isOtherAccountPage(await arrive({ email, claims: { sub: 'first' } }))).toBe(true);
    },
  );

  test('also after the role of the user has changed', async () => {
    const user = await newMember();
    const { email, shopId } = user;
    await arrive({ email, claims: { sub: 'first' } });
    await addMember(gateway.database.pool, { shopId, email, role: 'developer', by: TEST_AUTHOR });
    expect(isOtherAccountPage(await arrive({ email, claims: { sub: 'second' } }))).toBe(true);
  });

  test('with a new address, unless that address belongs to another member', async () => {
    const user = await newMember();
    const [sub, newEmail] = [randomUUID(), `new-${user.email}`];
    await arrive({ email: user.email, claims: { sub } });
    expect(isConsentPage(await arrive({ email: newEmail, claims: { sub } }), user)).toBe(true);
    expect(await actionsOf(user)).toContain('member.address_changed');
    // The old address belongs to no user now.
    const withOldEmail = await arrive({ email: user.email, claims: { sub: randomUUID() } });
    expect(withOldEmail.shown.text).toContain('No email was found');

    const other = await newMember();
    const { email } = other;
    await arrive({ email, claims: { sub: randomUUID() } });
    expect(isOtherAccountPage(await arrive({ email, claims: { sub } }))).toBe(true);
    expect(isConsentPage(await arrive({ email: newEmail, claims: { sub } }), user)).toBe(true);
  });

  test('until it is unlinked, which ends the assistants of the member', async () => {
    const { email, shopId, userId } = await newMember();
    const { pool } = gateway.database;
    await storeGrant(pool, randomUUID(), { shopId, userId, clientId: CLIENT_ID });
    expect(await listGrants(pool, { shopId })).toHaveLength(1);
    await unlinkAccount(pool, { shopId, email, by: TEST_AUTHOR });
    expect(await listGrants(pool, { shopId })).toEqual([]);
    const unknown = unlinkAccount(pool, { shopId, email: 'unknown@example.com', by: TEST_AUTHOR });
    await expect(unknown).rejects.toThrow('no such member');
  });
});

describe('an ID token', () => {
  /** The doors at which the sign-in ends with an error. */
  async function rejectedBy(claims: Record<string, unknown>, gatewayUrl?: string) {
    const { email } = await newMember();
    const rejected: string[] = [];
    for (const door of DOORS) {
      const { shown } = await arrive({ door, email, claims, ...(gatewayUrl && { gatewayUrl }) });
      if (/This sign-in has ended|fresh or stronger sign-in/.test(shown.text)) rejected.push(door);
    }
    return rejected;
  }

  test('that was not signed with a published key is rejected, at every door', async () => {
    expect(await rejectedBy({})).toEqual([]);
    identity.isForging = true;
    expect(await rejectedBy({})).toEqual(DOORS);
  });

  test.each([
    ['another nonce', { nonce: 'x'.repeat(43) }],
    ['no nonce', { nonce: undefined }],
    ['another audience', { aud: 'somebody-else' }],
    ['another issuer', { iss: 'https://elsewhere.example' }],
    ['an expiry in the past', { exp: 1 }],
    ['no subject', { sub: undefined }],
  ])('with %s is rejected, at every door', async (_, claims) => {
    expect(await rejectedBy(claims)).toEqual(DOORS);
  });

  const now = () => Math.floor(Date.now() / 1_000);
  const DAY_S = 86_400;
  test.each<[string, Record<string, string>, string | null, () => unknown, boolean]>([
    ['nothing', {}, null, () => undefined, true],
    ['nothing, with an old sign-in', {}, null, () => now() - DAY_S, true],
    ['prompt=login', { prompt: 'login' }, '0', now, true],
    ['prompt=login, with an old sign-in', { prompt: 'login' }, '0', () => now() - DAY_S, false],
    ['prompt=login, without auth_time', { prompt: 'login' }, '0', () => undefined, false],
    ['max_age', { max_age: '3600' }, '3600', () => now() - 60, true],
    ['max_age, with an old sign-in', { max_age: '3600' }, '3600', () => now() - DAY_S, false],
    ['max_age, without auth_time', { max_age: '3600' }, '3600', () => undefined, false],
  ])('for an app that requests %s', async (_, query, maxAge, authTime, isAccepted) => {
    const user = await newMember();
    const claims = { sub: randomUUID(), auth_time: authTime() };
    const { shown, sentTo } = await arrive({ email: user.email, query, claims });
    expect(sentTo.searchParams.get('max_age')).toBe(maxAge);
    const isRejected = shown.status === 403 && shown.text.includes('fresh or stronger sign-in');
    expect([isConsentPage({ shown }, user), isRejected]).toEqual([isAccepted, !isAccepted]);
  });

  test.each(['-1', 'x', '1.5'])('max_age %j is rejected', async (max_age) => {
    const query = new URLSearchParams({
      response_type: 'code',
      client_id: CLIENT_ID,
      redirect_uri: REDIRECT,
      code_challenge: 'x'.repeat(43),
      code_challenge_method: 'S256',
      max_age,
    });
    const { headers } = await new Browser().send(`${baseUrl}/oauth/authorize?${query}`);
    expect(headers.get('location')).toContain('error=invalid_request');
  });

  test.each([
    ['urn:mfa', true],
    ['phr', true],
    ['pwd', false],
    [undefined, false],
    [['phr'], false],
  ])('with acr %j, when urn:mfa or phr is required: accepted is %j', async (acr, isAccepted) => {
    const user = await newMember();
    const claims = { sub: randomUUID(), acr };
    const { shown, sentTo } = await arrive({ email: user.email, claims, gatewayUrl: strictUrl });
    expect(sentTo.searchParams.get('acr_values')).toBe('urn:mfa phr');
    expect(isConsentPage({ shown }, user)).toBe(isAccepted);
    expect(await rejectedBy({ acr }, strictUrl)).toEqual(isAccepted ? [] : DOORS);
  });
});
