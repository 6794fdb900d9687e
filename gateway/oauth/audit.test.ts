import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { newKeyringText, parseKeyring } from '../../services/platform/keyring.ts';
import { TEST_AUTHOR } from '../../test/kit/gateway/test-gateway.ts';
import {
  CLIENT_ID,
  type SignInStack,
  startSignInStack,
  type TokenResponse,
} from '../../test/kit/oauth/sign-in-stack.ts';
import { addMember, removeMember } from '../tenancy/members.ts';

let stack: SignInStack;
beforeAll(async () => {
  stack = await startSignInStack({ OAUTH_KEYRING: parseKeyring(newKeyringText()), replicas: 1 });
});
afterAll(() => stack?.stop());

const INVALID_GRANT = { status: 400, body: { error: 'invalid_grant' } };
const refresh = (token: unknown): Promise<TokenResponse> =>
  stack.token({ grant_type: 'refresh_token', refresh_token: String(token) });
/** Moves the first use of every code and refresh token into the past. */
const ageUses = (seconds: number): Promise<unknown> =>
  stack.under.database.pool.query(
    "update oauth_tickets set consumed_at = consumed_at - $1 * interval '1 second'",
    [seconds],
  );

describe('the audit log', () => {
  const entriesOf = async (userId: bigint) => {
    const { rows } = await stack.under.database.pool.query<{ subject: string }>(
      `select action, subject, actor_kind, actor_id, source, request_id, detail from audit_log
        where action like 'assistant.%' and (actor_id = $1 or detail->>'user_id' = $1) order by id`,
      [String(userId)],
    );
    return rows;
  };

  test('shows who connected an assistant, and that the reuse of its token ended the grant', async () => {
    const person = await stack.newPerson();
    const userId = String(person.userId);
    const { body } = await stack.tokens(person);
    const connected = {
      action: 'assistant.connected',
      actor_kind: 'user',
      actor_id: userId,
      source: '127.0.0.1',
      request_id: expect.any(String),
      detail: { client_id: CLIENT_ID, app: 'claude.ai', consent: 'given' },
    };
    const [first, ...more] = await entriesOf(person.userId);
    expect(first).toMatchObject(connected);
    expect(more).toEqual([]);
    await refresh(body.refresh_token);
    await ageUses(31);
    for (const _ of [1, 2]) expect(await refresh(body.refresh_token)).toMatchObject(INVALID_GRANT);
    const why = 'token_reused';
    expect(await entriesOf(person.userId)).toMatchObject([
      connected,
      {
        action: 'assistant.disconnected',
        subject: first?.subject,
        actor_kind: 'service',
        actor_id: 'gateway',
        detail: { user_id: userId, client_id: CLIENT_ID, app: 'claude.ai', why },
      },
    ]);
  });

  test('shows that an assistant was disconnected when the membership of its user ended', async () => {
    const person = await stack.newPerson();
    await stack.tokens(person);
    const { pool } = stack.under.database;
    const [shopId = 0n] = person.shopIds;
    await addMember(pool, { shopId, email: 'keeps@example.com', role: 'owner', by: TEST_AUTHOR });
    await removeMember(pool, { shopId, email: person.email, by: TEST_AUTHOR });
    expect((await entriesOf(person.userId)).at(-1)).toMatchObject({
      action: 'assistant.disconnected',
      detail: { why: 'member_removed' },
    });
  });
});
