import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import * as oauth from 'openid-client';
import {
  claimsIn,
  type IdentityBench,
  notAllowedIn,
  RESOURCE,
  redirectedWith,
  startIdentityBench,
} from './testing/identity-bench.ts';

let bench: IdentityBench;
beforeAll(async () => {
  bench = await startIdentityBench();
});
beforeEach(() => bench.reset());
afterAll(() => bench.stop());

describe('tokens of a partner app', () => {
  test('a refresh token rotates, and keeps shop and scopes', async () => {
    const first = await bench.redeem(await bench.install('owner', { scope: 'labels:write' }));
    const second = await oauth.refreshTokenGrant(bench.app, first.refresh_token ?? '');
    expect(second.refresh_token).not.toBe(first.refresh_token);
    expect(claimsIn(second.access_token)).toMatchObject({
      shop_id: 1,
      scope: 'labels:write',
      sub: 'user-owner',
    });
  });

  test('scopes of other servers are ignored at a refresh', async () => {
    const { refresh_token = '' } = await bench.redeem(await bench.install('owner'));
    const scope = 'developer_tools offline_access';
    const fresh = await oauth.refreshTokenGrant(bench.app, refresh_token, { scope });
    expect(claimsIn(fresh.access_token)).toMatchObject({ scope: 'developer_tools' });
  });

  test('a second use of a refresh token ends all tokens of its family', async () => {
    const first = await bench.redeem(await bench.install('owner'));
    const second = await oauth.refreshTokenGrant(bench.app, first.refresh_token ?? '');
    const refused = { error: 'invalid_grant' };
    const again = oauth.refreshTokenGrant(bench.app, first.refresh_token ?? '');
    await expect(again).rejects.toMatchObject(refused);
    const newest = oauth.refreshTokenGrant(bench.app, second.refresh_token ?? '');
    await expect(newest).rejects.toMatchObject(refused);
  });

  test('eight refreshes at once are a second use: they end the family, and none is a 500', async () => {
    const { refresh_token = '' } = await bench.redeem(await bench.install('owner'));
    const refresh = (token: string) => oauth.refreshTokenGrant(bench.app, token);
    const all = await Promise.allSettled(Array.from({ length: 8 }, () => refresh(refresh_token)));
    const fresh = all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    const rejected = all.flatMap((one) => (one.status === 'rejected' ? [one.reason] : []));
    expect(fresh.length).toBeLessThanOrEqual(1);
    for (const one of rejected) expect(one).toMatchObject({ status: 400, error: 'invalid_grant' });
    for (const one of fresh) {
      const again = refresh(one.refresh_token ?? '');
      await expect(again).rejects.toMatchObject({ error: 'invalid_grant' });
    }
  });

  test.each(['', '/'])('the resource may be {base_url}%s', async (end) => {
    const resource = `${RESOURCE.replace('http:', 'HTTP:')}${end}`;
    const page = await bench.install('owner', { more: { resource } });
    const extra = { resource };
    const check = { expectedState: 'st' };
    const first = await oauth.authorizationCodeGrant(bench.app, page.url, check, extra);
    expect(claimsIn(first.access_token)).toMatchObject({ aud: RESOURCE, shop_id: 1 });
    const fresh = await oauth.refreshTokenGrant(bench.app, first.refresh_token ?? '', extra);
    expect(claimsIn(fresh.access_token)).toMatchObject({ aud: RESOURCE, shop_id: 1 });
  });

  test('another resource is rejected, and uses up no code', async () => {
    const extra = { resource: 'https://evil.example' };
    const refused = await bench.install('owner', { more: extra });
    expect(redirectedWith(refused)).toMatchObject({ error: 'invalid_target' });
    const page = await bench.install('owner');
    const grant = (more = {}) =>
      oauth.authorizationCodeGrant(bench.app, page.url, { expectedState: 'st' }, more);
    await expect(grant(extra)).rejects.toMatchObject({ error: 'invalid_target' });
    expect(claimsIn((await grant()).access_token)).toMatchObject({ aud: RESOURCE });
  });

  test('a revoked refresh token cannot be used', async () => {
    expect(bench.app.serverMetadata().revocation_endpoint).toBe(`${bench.url}/oauth/revoke`);
    const { refresh_token = '' } = await bench.redeem(await bench.install('owner'));
    await oauth.tokenRevocation(bench.app, refresh_token);
    await expect(oauth.refreshTokenGrant(bench.app, refresh_token)).rejects.toMatchObject({
      error: 'invalid_grant',
    });
  });

  test('nobody gets new tokens for a user who may no longer connect apps', async () => {
    const { refresh_token = '' } = await bench.redeem(await bench.install('owner'));
    bench.shops.set('owner', [notAllowedIn(1n)]);
    await expect(oauth.refreshTokenGrant(bench.app, refresh_token)).rejects.toMatchObject({
      error: 'invalid_grant',
    });
  });
});
