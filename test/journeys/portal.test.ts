import { randomUUID } from 'node:crypto';
import { ConnectError } from '@connectrpc/connect';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { AuditService } from '../../proto/gen/rms/portal/v1/audit_pb.ts';
import { ReturnsService } from '../../proto/gen/rms/portal/v1/returns_pb.ts';
import { SessionService } from '../../proto/gen/rms/portal/v1/session_pb.ts';
import { type Journey, startJourney } from '../kit/journeys/journey.ts';
import { Browser } from '../kit/oauth/browser.ts';
import { portalClient } from '../kit/portal/portal.ts';
import { until } from '../kit/until.ts';

// A person works in the portal against the real services, without its page. The tests of `test:mcp` use the page.

let journey: Journey;
beforeAll(async () => {
  journey = await startJourney();
}, 120_000);
afterAll(() => journey?.stop(), 60_000);

/** Signs in with the bundled identity provider, in a new browser. Returns clients with the session. */
async function signIn(name: string) {
  const { base_url: baseUrl, users } = journey.stack.file;
  const user = users.find((one) => one.name === name);
  if (!user) throw new Error(`the stack has no user ${name}`);
  const browser = new Browser();
  const callback = `${baseUrl}/portal/callback`;
  const form = await browser.open(`${baseUrl}/portal/sign-in?return_to=/portal/returns`, callback);
  const { email, password } = user;
  const { url } = await browser.submit(form, { email, password }, callback);
  const { status, headers } = await browser.send(url);
  expect([status, headers.get('location')]).toEqual([303, '/portal/returns']);
  const cookie = `rms_portal=${browser.cookies.get('rms_portal /')?.value}`;
  const client = <S extends Parameters<typeof portalClient>[0]>(service: S) =>
    portalClient(service, baseUrl, { cookie, 'sec-fetch-site': 'same-origin' });
  return { email, client };
}

describe('a returns agent', () => {
  test('signs in, finds a return, processes it, and signs out of every browser', async () => {
    const { id, order_name: orderName } = await journey.stack.fixture('open');
    const returnId = String(id);
    const agent = await signIn('returns_agent');
    const elsewhere = await signIn('returns_agent');
    const { user, shop } = await agent.client(SessionService).getSession({});
    expect(user?.email).toBe(agent.email);
    expect(shop).toMatchObject({ id: String(journey.stack.shop.id), role: 'returns_agent' });

    const returns = agent.client(ReturnsService);
    const found = await returns.listReturns({ text: orderName, states: ['open'] });
    expect([found.total, found.returns.map((one) => one.id)]).toEqual([1, [returnId]]);
    const { return: shown } = await returns.getReturn({ returnId });
    expect(shown?.possible).toContain('process');
    const request = { returnId, idempotencyKey: randomUUID() };
    expect((await returns.processReturn(request)).result).toBe('queued');
    await until(async (see) => {
      const { return: now } = await returns.getReturn({ returnId });
      return see(now?.summary?.state) === 'closed';
    });
    const { entries } = await returns.listTimeline({ returnId });
    expect(entries.map(({ by }) => by?.id)).toContain(user?.id);
    const refused = agent.client(AuditService).listAuditEntries({});
    await expect(refused).rejects.toThrow('does not have the permission team.manage');

    expect((await agent.client(SessionService).signOutEverywhere({})).ended).toBeGreaterThan(1);
    for (const { client } of [agent, elsewhere]) {
      await expect(client(ReturnsService).listReturns({})).rejects.toThrow(ConnectError);
      await expect(client(SessionService).getSession({})).rejects.toThrow('Sign in again');
    }
  });

  test('leaves entries in the audit log, which the owner reads', async () => {
    const { id } = await journey.stack.fixture('open');
    const returnId = String(id);
    const agent = await signIn('returns_agent');
    const note = { returnId, text: 'Called the shopper', idempotencyKey: randomUUID() };
    await agent.client(ReturnsService).addNote(note);
    const audit = (await signIn('owner')).client(AuditService);
    await until(async (see) => {
      const { entries } = await audit.listAuditEntries({
        filter: { action: 'portal.add_return_note' },
      });
      const own = entries.filter(({ subject }) => subject === returnId);
      return see(own.map(({ detail }) => JSON.parse(detail).phase).join()) === 'done,asked';
    });
  });
});
