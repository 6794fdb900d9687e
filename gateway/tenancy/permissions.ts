/** The permissions of users in a shop. */
export const PERMISSIONS = [
  'returns.view',
  'returns.manage',
  'returns.process',
  'policy.manage',
  'warehouse.disposition',
  'destinations.view',
  'destinations.manage',
  'fraud.view',
  'fraud.report',
  'carts.create',
  'reports.view',
  'developer.view',
  'developer.manage',
  'team.manage',
  'shop.manage',
] as const;

export type Permission = (typeof PERMISSIONS)[number];

export const ROLES = [
  'owner',
  'admin',
  'returns_agent',
  'warehouse',
  'analyst',
  'developer',
] as const;

export type Role = (typeof ROLES)[number];

/** The permissions of each role. */
export const ROLE_PERMISSIONS: Readonly<Record<Role, readonly Permission[]>> = {
  owner: PERMISSIONS,
  admin: PERMISSIONS,
  returns_agent: [
    'returns.view',
    'returns.manage',
    'returns.process',
    'fraud.view',
    'fraud.report',
    'destinations.view',
    'carts.create',
    'reports.view',
  ],
  warehouse: ['returns.view', 'warehouse.disposition', 'destinations.view'],
  analyst: ['returns.view', 'fraud.view', 'reports.view'],
  developer: ['returns.view', 'developer.view', 'developer.manage'],
};

/** Whether a role has at least one of the permissions. */
export function permits(role: Role, anyOf: readonly Permission[]): boolean {
  return anyOf.some((permission) => ROLE_PERMISSIONS[role].includes(permission));
}

export function isRole(text: string): text is Role {
  return ROLES.some((role) => role === text);
}
