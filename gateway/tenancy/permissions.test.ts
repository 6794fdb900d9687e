import { describe, expect, test } from '@jest/globals';
import { PERMISSIONS, permits, ROLE_PERMISSIONS, ROLES } from './permissions.ts';

describe('permissions', () => {
  test('owner and admin have all permissions; only they manage the team', () => {
    expect(ROLE_PERMISSIONS.owner).toEqual(PERMISSIONS);
    expect(ROLE_PERMISSIONS.admin).toEqual(PERMISSIONS);
    expect(ROLES.filter((role) => permits(role, ['team.manage']))).toEqual(['owner', 'admin']);
  });
  test('one of several permissions is enough', () => {
    expect(permits('warehouse', ['returns.manage', 'warehouse.disposition'])).toBe(true);
    expect(permits('analyst', ['returns.manage', 'returns.process'])).toBe(false);
  });
});
