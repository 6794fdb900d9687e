import { createHash, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { SessionService } from '../../../proto/gen/rms/portal/v1/session_pb.ts';
import { TeamService } from '../../../proto/gen/rms/portal/v1/team_pb.ts';
import { TEST_AUTHOR } from '../../../test/kit/gateway/test-gateway.ts';
import { Browser, type Shown } from '../../../test/kit/oauth/browser.ts';
import {
  type Person,
  type SignInStack,
  startSignInStack,
} from '../../../test/kit/oauth/sign-in-stack.ts';
import { type PortalPerson, portalClient, portalPerson } from '../../../test/kit/portal/portal.ts';
import { removeMember } from '../../tenancy/members.ts';

const SHOP_NAME = 'Nightingale & Sons';
/** As a page shows it. */
const SHOWN_NAME = 'Nightingale &#38; Sons';

let stack: SignInStack;
const lines: string[] = [];
beforeAll(async () => {
  stack = await startSignInStack({
    replicas: 1,
    LOG_LEVEL: 'trace',
    logDestination: { write: (line) => void lines.push(line) },
  });
});
afterAll(() => stack.stop());

/** A new shop, whose name nobody may learn too early, with an owner who is called Ada. */
async function newOwner(): Promise<PortalPerson> {
  const shopId = await stack.under.newShop();
  const text = 'update shops set name = $2 where id = $1';
  await stack.under.database.pool.query(text, [shopId, SHOP_NAME]);
  return portalPerson(stack.under, { shopId, role: 'owner' });
}

/** Invites the address. Without mails, the response has the link. */
async function invite(owner: PortalPerson, email: string, role = 'warehouse') {
  const idempotencyKey = randomUUID();
  const team = owner.client(TeamService);
  const { link, invitation } = await team.inviteMember({ idempotencyKey, email, role });
  return { link, id: invitation?.id ?? '', code: new URL(link).hash.slice(1) };
}

const page = () => `${stack.baseUrl}/portal/invitation`;

/** Opens a link like a browser with scripts: the page sends the part after the # as a form. */
function open(code: string, browser = new Browser()): Promise<Shown> {
  const body = new URLSearchParams({ code });
  return browser.open(page(), 'none:', { method: 'POST', body });
}

/** Signs in as the page of the invitation asks for. Returns the page after the sign-in. */
async function signIn(person: Person, browser: Browser, query = ''): Promise<Shown> {
  const callback = `${stack.baseUrl}/portal/callback`;
  const { email, password } = person;
  let shown = await browser.open(`${page()}/sign-in${query}`, callback);
  if (shown.text.includes('name="password"')) {
    shown = await browser.submit(shown, { email, password }, callback);
  }
  return browser.open(shown.url, 'none:');
}

const accept = (browser: Browser, headers: Record<string, string> = {}) =>
  browser.send(`${page()}/accept`, { method: 'POST', headers });

const title = ({ text }: Shown): string => /<h1>(.*?)<\/h1>/.exec(text)?.[1] ?? '';

function sessionOf(browser: Browser) {
  const headers = {
    cookie: `rms_portal=${browser.cookies.get('rms_portal /')?.value}`,
    'sec-fetch-site': 'same-origin',
  };
  return portalClient(SessionService, stack.baseUrl, headers).getSession({});
}

test('a person without any shop opens the link, signs in, sees the shop, accepts, and is in', async () => {
  const [owner, person] = [await newOwner(), await stack.newPerson({ shops: 0 })];
  const { code } = await invite(owner, person.email);
  const browser = new Browser();
  const invited = await open(code, browser);
  expect([invited.status, title(invited)]).toEqual([200, 'Ada invites you to a team']);
  expect(invited.text).not.toContain(SHOWN_NAME);
  expect(invited.text).not.toContain(person.email);

  const offer = await signIn(person, browser);
  expect([offer.status, title(offer)]).toEqual([200, `Join ${SHOWN_NAME}?`]);
  expect(offer.text).toContain('Warehouse');
  expect(offer.text).toContain(person.email);
  // Not yet: neither a membership nor a session.
  expect(browser.cookies.get('rms_portal /')).toBeUndefined();
  const before = await owner.client(TeamService).listMembers({});
  expect(before.members).toHaveLength(1);

  const { status, headers } = await accept(browser);
  expect([status, headers.get('location')]).toEqual([303, '/portal']);
  const session = await sessionOf(browser);
  expect(session.shop).toMatchObject({ id: String(owner.shopId), role: 'warehouse' });
  const { members } = await owner.client(TeamService).listMembers({});
  expect(members.find(({ email }) => email === person.email)).toMatchObject({
    role: 'warehouse',
    signedIn: true,
  });
});

test('the link opens as often as one likes; accepting ends it', async () => {
  const [owner, person] = [await newOwner(), await stack.newPerson({ shops: 0 })];
  const { code } = await invite(owner, person.email);
  const [first, second] = [new Browser(), new Browser()];
  for (const browser of [first, second, first]) await open(code, browser);
  for (const browser of [first, second]) await signIn(person, browser);
  expect((await accept(first)).headers.get('location')).toBe('/portal');
  // The other window of the same person.
  expect(title(await second.send(page()))).toBe('This invitation was used');
  expect((await accept(second)).headers.get('location')).toBe('/portal');
  const used = await open(code);
  expect([used.status, title(used)]).toEqual([410, 'This invitation was used']);
  expect(used.text).toContain('href="/portal"');
});

test('another address learns neither the shop nor the invited address, and can sign in again', async () => {
  const owner = await newOwner();
  const [person, other] = [
    await stack.newPerson({ shops: 0 }),
    await stack.newPerson({ shops: 0 }),
  ];
  const { code } = await invite(owner, person.email);
  const browser = new Browser();
  await open(code, browser);
  const wrong = await signIn(other, browser);
  expect([wrong.status, title(wrong)]).toEqual([403, 'Another address is invited']);
  expect(wrong.text).toContain(other.email);
  expect(wrong.text).not.toContain(SHOWN_NAME);
  expect(wrong.text).not.toContain(person.email);
  await accept(browser);
  expect((await owner.client(TeamService).listMembers({})).members).toHaveLength(1);

  expect(wrong.text).toContain('href="/portal/invitation/sign-in?prompt=login"');
  expect(title(await signIn(person, browser, '?prompt=login'))).toBe(`Join ${SHOWN_NAME}?`);
});

test('an address that is not confirmed does not count', async () => {
  const [owner, person] = [await newOwner(), await stack.newPerson({ shops: 0, verified: false })];
  const { code } = await invite(owner, person.email);
  const browser = new Browser();
  await open(code, browser);
  const shown = await signIn(person, browser);
  expect([shown.status, title(shown)]).toEqual([403, 'Your address is not confirmed']);
  expect(shown.text).not.toContain(SHOWN_NAME);
  expect((await accept(browser)).headers.get('location')).toBe('/portal/invitation');
  expect((await owner.client(TeamService).listMembers({})).members).toHaveLength(1);
});

describe('an invitation that cannot be accepted says why and what to do, without the shop', () => {
  const ENDS = {
    expired: {
      title: 'This invitation has expired',
      advice: 'Ask Ada to send you a new one',
      end: ({ owner }: Ending) => expire(owner.shopId),
    },
    withdrawn: {
      title: 'This invitation was withdrawn',
      advice: 'ask Ada',
      end: ({ owner, id }: Ending) =>
        owner.client(TeamService).withdrawInvitation({ invitationId: id }),
    },
    replaced: {
      title: 'There is a newer invitation',
      advice: 'Use the link in the newest mail',
      end: ({ owner, id }: Ending) =>
        owner
          .client(TeamService)
          .resendInvitation({ invitationId: id, idempotencyKey: randomUUID() }),
    },
    unbacked: {
      title: 'This invitation has ended',
      advice: 'Ask somebody else of the team',
      async end({ owner }: Ending) {
        const { pool } = stack.under.database;
        await portalPerson(stack.under, { shopId: owner.shopId, role: 'owner' });
        await removeMember(pool, { shopId: owner.shopId, email: owner.email, by: TEST_AUTHOR });
      },
    },
  };
  interface Ending {
    readonly owner: PortalPerson;
    readonly id: string;
  }

  test.each(Object.entries(ENDS))('%s', async (_, { title: heading, advice, end }) => {
    const [owner, person] = [await newOwner(), await stack.newPerson({ shops: 0 })];
    const { code, id } = await invite(owner, person.email);
    const browser = new Browser();
    await open(code, browser);
    await signIn(person, browser);
    await end({ owner, id });
    await accept(browser);
    for (const shown of [await browser.send(page()), await open(code)]) {
      expect([shown.status, title(shown)]).toEqual([410, heading]);
      expect(shown.text).toContain(advice);
      expect(shown.text).not.toContain(SHOWN_NAME);
    }
    expect(browser.cookies.get('rms_portal /')).toBeUndefined();
  });

  test.each(['', 'x', 'x'.repeat(43), 'a b'])('the code %j', async (code) => {
    const shown = await open(code);
    expect([shown.status, title(shown)]).toEqual([404, 'This link does not work']);
  });
});

describe('nobody else', () => {
  test('accepts what another browser has opened', async () => {
    const [owner, person] = [await newOwner(), await stack.newPerson({ shops: 0 })];
    const { code } = await invite(owner, person.email);
    const browser = new Browser();
    await open(code, browser);
    const before = browser.cookies.get('rms_invitation /')?.value ?? '';
    await signIn(person, browser);
    // Somebody who knows the id from before the sign-in.
    const thief = new Browser();
    thief.cookies.set('rms_invitation /', { value: before, path: '/', attributes: '' });
    expect(title(await thief.send(page()))).toBe('Open your invitation');
    expect((await accept(thief)).headers.get('location')).toBe('/portal/invitation');
    expect((await owner.client(TeamService).listMembers({})).members).toHaveLength(1);
  });

  test.each([
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.example' },
  ])('sends the form: %j', async (headers) => {
    const [owner, person] = [await newOwner(), await stack.newPerson({ shops: 0 })];
    const { code } = await invite(owner, person.email);
    const browser = new Browser();
    await open(code, browser);
    await signIn(person, browser);
    expect((await accept(browser, headers as Record<string, string>)).status).toBe(404);
    expect((await owner.client(TeamService).listMembers({})).members).toHaveLength(1);
  });

  test('finds the token in an address, a log line or a header', async () => {
    const [owner, person] = [await newOwner(), await stack.newPerson({ shops: 0 })];
    const { link, code } = await invite(owner, person.email);
    expect(link).toBe(`${page()}#${code}`);
    const browser = new Browser();
    const opened = await browser.send(page(), {
      method: 'POST',
      body: new URLSearchParams({ code }),
    });
    const shown = [opened, await browser.send(page()), await signIn(person, browser)];
    shown.push(await accept(browser));
    for (const { url, headers, text } of shown) {
      expect([url.href, text, ...headers.values()].join('\n')).not.toContain(code);
      expect(headers.get('referrer-policy')).toMatch(/^(?:same-origin|no-referrer)$/);
    }
    expect(lines.join('')).toContain('portalInvitation');
    expect(lines.join('')).not.toContain(code);
  });
});

test('the page runs its own script and no other, and works without scripts', async () => {
  const [owner, person] = [await newOwner(), await stack.newPerson({ shops: 0 })];
  const { link } = await invite(owner, person.email);
  const browser = new Browser();
  const shown = await browser.send(page());
  const [, script = ''] = /<script>(.*?)<\/script>/s.exec(shown.text) ?? [];
  const hash = createHash('sha256').update(script).digest('base64');
  const policy = shown.headers.get('content-security-policy');
  expect(policy).toContain(`script-src 'sha256-${hash}'`);
  expect(policy).toContain("form-action 'self'");
  expect(shown.headers.get('cache-control')).toBe('no-store');
  // A person pastes the whole link.
  expect(title(await browser.submit(shown, { code: link }, 'none:'))).toContain('Ada invites you');
});

test('a member of another shop becomes a member of both, and begins in the new one', async () => {
  const [owner, person] = [await newOwner(), await stack.newPerson()];
  const { code } = await invite(owner, person.email, 'analyst');
  const browser = new Browser();
  await open(code, browser);
  await signIn(person, browser);
  await accept(browser);
  const session = await sessionOf(browser);
  expect(session.user?.id).toBe(String(person.userId));
  expect(session.shop?.id).toBe(String(owner.shopId));
  expect(session.shops.map(({ id }) => id).toSorted()).toEqual(
    [...person.shopIds, owner.shopId].map(String).toSorted(),
  );
});

async function expire(shopId: bigint): Promise<void> {
  await stack.under.database.pool.query(
    `update invitations set expires_at = now() - interval '1 second' where shop_id = $1`,
    [shopId],
  );
}
