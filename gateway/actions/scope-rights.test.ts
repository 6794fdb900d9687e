import { expect, test } from '@jest/globals';
import { PARTNER_SCOPES } from '../../services/contract/operations.ts';
import { SCOPES, type Scope } from '../../services/contract/scopes.ts';
import { ROLES, type Role } from '../tenancy/permissions.ts';
import { rightsOfScope, roleCovers } from './scope-rights.ts';

test('a scope gives the rights of people whose operations it opens', () => {
  expect(rightsOfScope('carts')).toEqual(['createCarts']);
  expect(rightsOfScope('returns:read')).toContain('seeReturns');
  expect(rightsOfScope('returns:read')).not.toContain('reviewReturns');
  expect(rightsOfScope('returns:submit')).toEqual(
    expect.arrayContaining(['seeReturns', 'reviewReturns']),
  );
  expect(rightsOfScope('warehouse')).toContain('inspectGoods');
  expect(rightsOfScope('warehouse')).not.toContain('processReturns');
  for (const part of ['returns:read', 'returns:submit', 'warehouse'] as const) {
    expect(rightsOfScope('returns')).toEqual(expect.arrayContaining([...rightsOfScope(part)]));
  }
});

test.each(SCOPES)('an owner may grant %s', (scope) => {
  expect(rightsOfScope(scope)).not.toEqual([]);
  expect(roleCovers('owner', scope)).toBe(true);
});

test('what systems alone do is above no role, and what a role may not do is above it', () => {
  const coveredBy = (role: Role) => PARTNER_SCOPES.filter((scope) => roleCovers(role, scope));
  const systems: readonly Scope[] = ['labels:write', 'giftcards:write'];
  for (const role of ROLES) expect(coveredBy(role)).toEqual(expect.arrayContaining([...systems]));
  expect(coveredBy('developer')).toContain('developer_tools');
  expect(coveredBy('developer')).not.toContain('returns');
  expect(coveredBy('developer')).not.toContain('returns:submit');
  expect(coveredBy('developer')).not.toContain('warehouse');
  expect(coveredBy('analyst')).not.toContain('developer_tools');
});
